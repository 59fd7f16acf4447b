#map = affine_map<(d0) -> (d0)>
module {
  func.func @attn(%arg0: memref<?xi8>, %arg1: memref<?xi8>, %arg2: memref<?xf16> {tt.tensor_kind = 0 : i32}, %arg3: memref<?xf16> {tt.tensor_kind = 0 : i32}, %arg4: memref<?xf16> {tt.tensor_kind = 0 : i32}, %arg5: memref<?xf32> {tt.tensor_kind = 1 : i32}, %arg6: memref<?xf16> {tt.tensor_kind = 1 : i32}, %arg7: f32, %arg8: i32, %arg9: i32, %arg10: i32, %arg11: i32, %arg12: i32, %arg13: i32, %arg14: i32, %arg15: i32, %arg16: i32, %arg17: i32) attributes {SyncBlockLockArgIdx = 0 : i64, WorkspaceArgIdx = 1 : i64, global_kernel = "local", mix_mode = "mix", parallel_mode = "simd"} {
    %c32_i32 = arith.constant 32 : i32
    %c0_i32 = arith.constant 0 : i32
    %c128_i32 = arith.constant 128 : i32
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant -1.000000e+06 : f32
    %c1_i32 = arith.constant 1 : i32
    %cst_1 = arith.constant 0xFF800000 : f32
    %cst_2 = arith.constant 1.000000e+00 : f32
    %0 = tensor.empty() : tensor<32xf32>
    %1 = linalg.fill ins(%cst_2 : f32) outs(%0 : tensor<32xf32>) -> tensor<32xf32>
    %2 = linalg.fill ins(%cst_1 : f32) outs(%0 : tensor<32xf32>) -> tensor<32xf32>
    %3 = tensor.empty() : tensor<32x32xf32>
    %4 = linalg.fill ins(%cst_0 : f32) outs(%3 : tensor<32x32xf32>) -> tensor<32x32xf32>
    %5 = linalg.fill ins(%cst : f32) outs(%3 : tensor<32x32xf32>) -> tensor<32x32xf32>
    %6 = arith.divsi %arg16, %arg11 : i32
    %7 = arith.remsi %arg16, %arg11 : i32
    %8 = arith.extsi %6 : i32 to i64
    %9 = arith.extsi %arg8 : i32 to i64
    %10 = arith.muli %8, %9 : i64
    %11 = arith.extsi %7 : i32 to i64
    %12 = arith.extsi %arg9 : i32 to i64
    %13 = arith.muli %11, %12 : i64
    %14 = arith.addi %10, %13 : i64
    %15 = arith.index_cast %14 : i64 to index
    %16 = arith.muli %arg15, %c32_i32 : i32
    %17 = arith.index_cast %16 : i32 to index
    %18 = arith.index_cast %arg10 : i32 to index
    %19 = arith.muli %17, %18 : index
    %20 = arith.addi %19, %15 : index
    %reinterpret_cast = memref.reinterpret_cast %arg2 to offset: [%20], sizes: [32, 32], strides: [%18, 1] : memref<?xf16> to memref<32x32xf16, strided<[?, 1], offset: ?>>
    %reinterpret_cast_3 = memref.reinterpret_cast %arg6 to offset: [%20], sizes: [32, 32], strides: [%18, 1] : memref<?xf16> to memref<32x32xf16, strided<[?, 1], offset: ?>>
    %21 = tensor.empty() : tensor<32xi32>
    %22 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%21 : tensor<32xi32>) {
    ^bb0(%out: i32):
      %40 = linalg.index 0 : index
      %41 = arith.index_cast %40 : index to i32
      linalg.yield %41 : i32
    } -> tensor<32xi32>
    %23 = linalg.fill ins(%16 : i32) outs(%21 : tensor<32xi32>) -> tensor<32xi32>
    %24 = arith.addi %23, %22 : tensor<32xi32>
    %alloc = memref.alloc() : memref<32x32xf16>
    memref.copy %reinterpret_cast, %alloc : memref<32x32xf16, strided<[?, 1], offset: ?>> to memref<32x32xf16>
    %25 = bufferization.to_tensor %alloc restrict writable : memref<32x32xf16>
    %26 = linalg.fill ins(%arg7 : f32) outs(%3 : tensor<32x32xf32>) -> tensor<32x32xf32>
    %27:5 = scf.for %arg18 = %c0_i32 to %16 step %c32_i32 iter_args(%arg19 = %1, %arg20 = %5, %arg21 = %2, %arg22 = %c0_i32, %arg23 = %c0_i32) -> (tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>, i32, i32)  : i32 {
      %40 = arith.index_cast %arg23 : i32 to index
      %41 = arith.muli %40, %18 : index
      %42 = arith.addi %41, %15 : index
      %reinterpret_cast_6 = memref.reinterpret_cast %arg3 to offset: [%42], sizes: [32, 32], strides: [%18, 1] : memref<?xf16> to memref<32x32xf16, strided<[?, 1], offset: ?>>
      %43 = arith.index_cast %arg22 : i32 to index
      %44 = arith.muli %43, %18 : index
      %45 = arith.addi %44, %15 : index
      %reinterpret_cast_7 = memref.reinterpret_cast %arg4 to offset: [%45], sizes: [32, 32], strides: [%18, 1] : memref<?xf16> to memref<32x32xf16, strided<[?, 1], offset: ?>>
      %alloc_8 = memref.alloc() : memref<32x32xf16>
      memref.copy %reinterpret_cast_6, %alloc_8 : memref<32x32xf16, strided<[?, 1], offset: ?>> to memref<32x32xf16>
      %46 = bufferization.to_tensor %alloc_8 restrict writable : memref<32x32xf16>
      %47 = tensor.empty() : tensor<32x32xf16>
      %transposed = linalg.transpose ins(%46 : tensor<32x32xf16>) outs(%47 : tensor<32x32xf16>) permutation = [1, 0]
      %48 = linalg.matmul {input_precison = "ieee"} ins(%25, %transposed : tensor<32x32xf16>, tensor<32x32xf16>) outs(%5 : tensor<32x32xf32>) -> tensor<32x32xf32>
      %49 = arith.mulf %48, %26 : tensor<32x32xf32>
      %reduced = linalg.reduce ins(%49 : tensor<32x32xf32>) outs(%2 : tensor<32xf32>) dimensions = [1]
        (%in: f32, %init: f32) {
          %64 = arith.maxnumf %in, %init : f32
          linalg.yield %64 : f32
        }
      %50 = arith.maxnumf %arg21, %reduced : tensor<32xf32>
      %broadcasted_9 = linalg.broadcast ins(%50 : tensor<32xf32>) outs(%3 : tensor<32x32xf32>) dimensions = [1]
      %51 = arith.subf %49, %broadcasted_9 : tensor<32x32xf32>
      %52 = math.exp %51 : tensor<32x32xf32>
      %53 = linalg.fill ins(%cst : f32) outs(%0 : tensor<32xf32>) -> tensor<32xf32>
      %reduced_10 = linalg.reduce ins(%52 : tensor<32x32xf32>) outs(%53 : tensor<32xf32>) dimensions = [1]
        (%in: f32, %init: f32) {
          %64 = arith.addf %in, %init : f32
          linalg.yield %64 : f32
        }
      %54 = arith.subf %arg21, %50 : tensor<32xf32>
      %55 = math.exp %54 : tensor<32xf32>
      %56 = arith.mulf %arg19, %55 : tensor<32xf32>
      %57 = arith.addf %56, %reduced_10 : tensor<32xf32>
      %broadcasted_11 = linalg.broadcast ins(%55 : tensor<32xf32>) outs(%3 : tensor<32x32xf32>) dimensions = [1]
      %58 = arith.mulf %arg20, %broadcasted_11 : tensor<32x32xf32>
      %alloc_12 = memref.alloc() : memref<32x32xf16>
      memref.copy %reinterpret_cast_7, %alloc_12 : memref<32x32xf16, strided<[?, 1], offset: ?>> to memref<32x32xf16>
      %59 = bufferization.to_tensor %alloc_12 restrict writable : memref<32x32xf16>
      %60 = arith.truncf %52 : tensor<32x32xf32> to tensor<32x32xf16>
      %61 = linalg.matmul {input_precison = "ieee"} ins(%60, %59 : tensor<32x32xf16>, tensor<32x32xf16>) outs(%58 : tensor<32x32xf32>) -> tensor<32x32xf32>
      %62 = arith.addi %arg22, %c32_i32 : i32
      %63 = arith.addi %arg23, %c32_i32 : i32
      scf.yield %57, %61, %50, %62, %63 : tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>, i32, i32
    }
    %28 = arith.muli %arg15, %c32_i32 {tt.divisibility = dense<32> : tensor<1xi32>} : i32
    %29 = arith.addi %arg15, %c1_i32 : i32
    %30 = arith.muli %29, %c32_i32 : i32
    %expanded = tensor.expand_shape %22 [[0, 1]] output_shape [1, 32] : tensor<32xi32> into tensor<1x32xi32>
    %31 = tensor.empty() : tensor<32x32xi32>
    %broadcasted = linalg.broadcast ins(%24 : tensor<32xi32>) outs(%31 : tensor<32x32xi32>) dimensions = [1]
    %32:5 = scf.for %arg18 = %28 to %30 step %c32_i32 iter_args(%arg19 = %27#0, %arg20 = %27#1, %arg21 = %27#2, %arg22 = %28, %arg23 = %28) -> (tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>, i32, i32)  : i32 {
      %40 = arith.index_cast %arg23 : i32 to index
      %41 = arith.muli %40, %18 : index
      %42 = arith.addi %41, %15 : index
      %reinterpret_cast_6 = memref.reinterpret_cast %arg3 to offset: [%42], sizes: [32, 32], strides: [%18, 1] : memref<?xf16> to memref<32x32xf16, strided<[?, 1], offset: ?>>
      %43 = arith.index_cast %arg22 : i32 to index
      %44 = arith.muli %43, %18 : index
      %45 = arith.addi %44, %15 : index
      %reinterpret_cast_7 = memref.reinterpret_cast %arg4 to offset: [%45], sizes: [32, 32], strides: [%18, 1] : memref<?xf16> to memref<32x32xf16, strided<[?, 1], offset: ?>>
      %alloc_8 = memref.alloc() : memref<32x32xf16>
      memref.copy %reinterpret_cast_6, %alloc_8 : memref<32x32xf16, strided<[?, 1], offset: ?>> to memref<32x32xf16>
      %46 = bufferization.to_tensor %alloc_8 restrict writable : memref<32x32xf16>
      %47 = tensor.empty() : tensor<32x32xf16>
      %transposed = linalg.transpose ins(%46 : tensor<32x32xf16>) outs(%47 : tensor<32x32xf16>) permutation = [1, 0]
      %48 = linalg.matmul {input_precison = "ieee"} ins(%25, %transposed : tensor<32x32xf16>, tensor<32x32xf16>) outs(%5 : tensor<32x32xf32>) -> tensor<32x32xf32>
      %49 = tensor.empty() : tensor<1x32xi32>
      %50 = linalg.fill ins(%arg18 : i32) outs(%49 : tensor<1x32xi32>) -> tensor<1x32xi32>
      %51 = arith.addi %50, %expanded : tensor<1x32xi32>
      %collapsed = tensor.collapse_shape %51 [[0, 1]] : tensor<1x32xi32> into tensor<32xi32>
      %broadcasted_9 = linalg.broadcast ins(%collapsed : tensor<32xi32>) outs(%31 : tensor<32x32xi32>) dimensions = [0]
      %52 = arith.cmpi sge, %broadcasted, %broadcasted_9 : tensor<32x32xi32>
      %53 = arith.mulf %48, %26 : tensor<32x32xf32>
      %54 = arith.select %52, %5, %4 : tensor<32x32xi1>, tensor<32x32xf32>
      %55 = arith.addf %53, %54 : tensor<32x32xf32>
      %reduced = linalg.reduce ins(%55 : tensor<32x32xf32>) outs(%2 : tensor<32xf32>) dimensions = [1]
        (%in: f32, %init: f32) {
          %70 = arith.maxnumf %in, %init : f32
          linalg.yield %70 : f32
        }
      %56 = arith.maxnumf %arg21, %reduced : tensor<32xf32>
      %broadcasted_10 = linalg.broadcast ins(%56 : tensor<32xf32>) outs(%3 : tensor<32x32xf32>) dimensions = [1]
      %57 = arith.subf %55, %broadcasted_10 : tensor<32x32xf32>
      %58 = math.exp %57 : tensor<32x32xf32>
      %59 = linalg.fill ins(%cst : f32) outs(%0 : tensor<32xf32>) -> tensor<32xf32>
      %reduced_11 = linalg.reduce ins(%58 : tensor<32x32xf32>) outs(%59 : tensor<32xf32>) dimensions = [1]
        (%in: f32, %init: f32) {
          %70 = arith.addf %in, %init : f32
          linalg.yield %70 : f32
        }
      %60 = arith.subf %arg21, %56 : tensor<32xf32>
      %61 = math.exp %60 : tensor<32xf32>
      %62 = arith.mulf %arg19, %61 : tensor<32xf32>
      %63 = arith.addf %62, %reduced_11 : tensor<32xf32>
      %broadcasted_12 = linalg.broadcast ins(%61 : tensor<32xf32>) outs(%3 : tensor<32x32xf32>) dimensions = [1]
      %64 = arith.mulf %arg20, %broadcasted_12 : tensor<32x32xf32>
      %alloc_13 = memref.alloc() : memref<32x32xf16>
      memref.copy %reinterpret_cast_7, %alloc_13 : memref<32x32xf16, strided<[?, 1], offset: ?>> to memref<32x32xf16>
      %65 = bufferization.to_tensor %alloc_13 restrict writable : memref<32x32xf16>
      %66 = arith.truncf %58 : tensor<32x32xf32> to tensor<32x32xf16>
      %67 = linalg.matmul {input_precison = "ieee"} ins(%66, %65 : tensor<32x32xf16>, tensor<32x32xf16>) outs(%64 : tensor<32x32xf32>) -> tensor<32x32xf32>
      %68 = arith.addi %arg22, %c32_i32 : i32
      %69 = arith.addi %arg23, %c32_i32 : i32
      scf.yield %63, %67, %56, %68, %69 : tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>, i32, i32
    }
    %33 = math.log %32#0 : tensor<32xf32>
    %34 = arith.addf %32#2, %33 : tensor<32xf32>
    %broadcasted_4 = linalg.broadcast ins(%32#0 : tensor<32xf32>) outs(%3 : tensor<32x32xf32>) dimensions = [1]
    %35 = arith.divf %32#1, %broadcasted_4 : tensor<32x32xf32>
    %36 = arith.muli %arg16, %c128_i32 : i32
    %37 = arith.index_cast %36 : i32 to index
    %38 = arith.addi %37, %17 : index
    %reinterpret_cast_5 = memref.reinterpret_cast %arg5 to offset: [%38], sizes: [32], strides: [1] : memref<?xf32> to memref<32xf32, strided<[1], offset: ?>>
    bufferization.materialize_in_destination %34 in writable %reinterpret_cast_5 : (tensor<32xf32>, memref<32xf32, strided<[1], offset: ?>>) -> ()
    %39 = arith.truncf %35 : tensor<32x32xf32> to tensor<32x32xf16>
    bufferization.materialize_in_destination %39 in writable %reinterpret_cast_3 : (tensor<32x32xf16>, memref<32x32xf16, strided<[?, 1], offset: ?>>) -> ()
    return
  }
}

