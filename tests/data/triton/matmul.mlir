module {
  func.func @mm2(%arg0: memref<?xi8>, %arg1: memref<?xi8>, %arg2: memref<?xf16> {tt.tensor_kind = 0 : i32}, %arg3: memref<?xf16> {tt.tensor_kind = 0 : i32}, %arg4: memref<?xf16> {tt.tensor_kind = 1 : i32}, %arg5: i32, %arg6: i32, %arg7: i32, %arg8: i32, %arg9: i32, %arg10: i32, %arg11: i32, %arg12: i32, %arg13: i32) attributes {SyncBlockLockArgIdx = 0 : i64, WorkspaceArgIdx = 1 : i64, global_kernel = "local", mix_mode = "mix", parallel_mode = "simd"} {
    %cst = arith.constant 0.000000e+00 : f16
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %c0 = arith.constant 0 : index
    %c64_i32 = arith.constant 64 : i32
    %c0_i32 = arith.constant 0 : i32
    %c32_i32 = arith.constant 32 : i32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<64x64xf32>
    %1 = linalg.fill ins(%cst_0 : f32) outs(%0 : tensor<64x64xf32>) -> tensor<64x64xf32>
    %2 = arith.muli %arg11, %c64_i32 : i32
    %3 = arith.muli %arg12, %c64_i32 : i32
    %4 = arith.index_cast %2 : i32 to index
    %5 = arith.index_cast %3 : i32 to index
    %6 = arith.index_cast %arg6 : i32 to index
    %7 = arith.muli %4, %6 : index
    %8 = arith.index_cast %arg5 : i32 to index
    %9 = arith.addi %7, %5 : index
    %reinterpret_cast = memref.reinterpret_cast %arg4 to offset: [%9], sizes: [64, 64], strides: [%6, 1] : memref<?xf16> to memref<64x64xf16, strided<[?, 1], offset: ?>>
    %10:3 = scf.for %arg14 = %c0_i32 to %arg7 step %c32_i32 iter_args(%arg15 = %1, %arg16 = %c0_i32, %arg17 = %c0_i32) -> (tensor<64x64xf32>, i32, i32)  : i32 {
      %20 = arith.index_cast %arg17 : i32 to index
      %21 = arith.muli %20, %6 : index
      %22 = arith.index_cast %arg7 : i32 to index
      %23 = arith.addi %21, %5 : index
      %reinterpret_cast_1 = memref.reinterpret_cast %arg3 to offset: [%23], sizes: [32, 64], strides: [%6, 1] : memref<?xf16> to memref<32x64xf16, strided<[?, 1], offset: ?>>
      %24 = arith.index_cast %arg16 : i32 to index
      %25 = arith.muli %4, %22 : index
      %26 = arith.addi %25, %24 : index
      %reinterpret_cast_2 = memref.reinterpret_cast %arg2 to offset: [%26], sizes: [64, 32], strides: [%22, 1] : memref<?xf16> to memref<64x32xf16, strided<[?, 1], offset: ?>>
      %alloc = memref.alloc() : memref<64x32xf16>
      %27 = arith.divsi %26, %22 : index
      %28 = arith.subi %8, %27 : index
      %29 = arith.maxsi %28, %c0 : index
      %30 = arith.minsi %29, %c64 : index
      %31 = arith.remsi %26, %22 : index
      %32 = arith.subi %22, %31 : index
      %33 = arith.maxsi %32, %c0 : index
      %34 = arith.minsi %33, %c32 : index
      %35 = arith.cmpi slt, %30, %c64 : index
      %36 = arith.cmpi slt, %34, %c32 : index
      %37 = arith.ori %35, %36 : i1
      scf.if %37 {
        linalg.fill ins(%cst : f16) outs(%alloc : memref<64x32xf16>)
      } {hivm.unlikely_condition}
      %subview_3 = memref.subview %reinterpret_cast_2[0, 0] [%30, %34] [1, 1] : memref<64x32xf16, strided<[?, 1], offset: ?>> to memref<?x?xf16, strided<[?, 1], offset: ?>>
      %subview_4 = memref.subview %alloc[0, 0] [%30, %34] [1, 1] : memref<64x32xf16> to memref<?x?xf16, strided<[32, 1]>>
      memref.copy %subview_3, %subview_4 : memref<?x?xf16, strided<[?, 1], offset: ?>> to memref<?x?xf16, strided<[32, 1]>>
      %38 = bufferization.to_tensor %alloc restrict writable : memref<64x32xf16>
      %alloc_5 = memref.alloc() : memref<32x64xf16>
      %39 = arith.divsi %23, %6 : index
      %40 = arith.subi %22, %39 : index
      %41 = arith.maxsi %40, %c0 : index
      %42 = arith.minsi %41, %c32 : index
      %43 = arith.remsi %23, %6 : index
      %44 = arith.subi %6, %43 : index
      %45 = arith.maxsi %44, %c0 : index
      %46 = arith.minsi %45, %c64 : index
      %47 = arith.cmpi slt, %42, %c32 : index
      %48 = arith.cmpi slt, %46, %c64 : index
      %49 = arith.ori %47, %48 : i1
      scf.if %49 {
        linalg.fill ins(%cst : f16) outs(%alloc_5 : memref<32x64xf16>)
      } {hivm.unlikely_condition}
      %subview_6 = memref.subview %reinterpret_cast_1[0, 0] [%42, %46] [1, 1] : memref<32x64xf16, strided<[?, 1], offset: ?>> to memref<?x?xf16, strided<[?, 1], offset: ?>>
      %subview_7 = memref.subview %alloc_5[0, 0] [%42, %46] [1, 1] : memref<32x64xf16> to memref<?x?xf16, strided<[64, 1]>>
      memref.copy %subview_6, %subview_7 : memref<?x?xf16, strided<[?, 1], offset: ?>> to memref<?x?xf16, strided<[64, 1]>>
      %50 = bufferization.to_tensor %alloc_5 restrict writable : memref<32x64xf16>
      %51 = linalg.matmul {input_precison = "ieee"} ins(%38, %50 : tensor<64x32xf16>, tensor<32x64xf16>) outs(%arg15 : tensor<64x64xf32>) -> tensor<64x64xf32>
      %52 = arith.addi %arg16, %c32_i32 : i32
      %53 = arith.addi %arg17, %c32_i32 : i32
      scf.yield %51, %52, %53 : tensor<64x64xf32>, i32, i32
    }
    %11 = arith.truncf %10#0 : tensor<64x64xf32> to tensor<64x64xf16>
    %12 = arith.divsi %9, %6 : index
    %13 = arith.subi %8, %12 : index
    %14 = arith.maxsi %13, %c0 : index
    %15 = arith.minsi %14, %c64 : index
    %16 = arith.remsi %9, %6 : index
    %17 = arith.subi %6, %16 : index
    %18 = arith.maxsi %17, %c0 : index
    %19 = arith.minsi %18, %c64 : index
    %extracted_slice = tensor.extract_slice %11[0, 0] [%15, %19] [1, 1] : tensor<64x64xf16> to tensor<?x?xf16>
    %subview = memref.subview %reinterpret_cast[0, 0] [%15, %19] [1, 1] : memref<64x64xf16, strided<[?, 1], offset: ?>> to memref<?x?xf16, strided<[?, 1], offset: ?>>
    bufferization.materialize_in_destination %extracted_slice in writable %subview : (tensor<?x?xf16>, memref<?x?xf16, strided<[?, 1], offset: ?>>) -> ()
    return
  }
}

