/* Types and formats of tensors as operators' host code names them; numbers as those of aclDataType and aclFormat. */
#ifndef NPUSIM_GRAPH_TYPES_H
#define NPUSIM_GRAPH_TYPES_H

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

using std::string; /* toolkits' headers bring it along */
namespace ge {
using std::map; /* host code names it so */
using std::string;
using std::vector;
using char_t = char;
using float32_t = float;
enum DataType : int32_t {
    DT_FLOAT = 0, DT_FLOAT16 = 1, DT_INT8 = 2, DT_INT32 = 3, DT_UINT8 = 4, DT_INT16 = 6, DT_UINT16 = 7, DT_UINT32 = 8, DT_INT64 = 9, DT_UINT64 = 10, DT_DOUBLE = 11, DT_BOOL = 12,
    DT_STRING = 13, DT_COMPLEX64 = 16, DT_COMPLEX128 = 17, DT_BF16 = 27, DT_UNDEFINED = 28, DT_INT4 = 29, DT_UINT1 = 30, DT_INT2 = 31, DT_UINT2 = 32, DT_HIFLOAT8 = 34, DT_FLOAT8_E5M2 = 35, DT_FLOAT8_E4M3FN = 36, DT_FLOAT8_E8M0 = 37,
    DT_FLOAT4_E2M1 = 40, DT_FLOAT4_E1M2 = 41, DT_MAX
};
enum Format : int32_t {
    FORMAT_NCHW = 0, FORMAT_NHWC = 1, FORMAT_ND = 2, FORMAT_NC1HWC0 = 3, FORMAT_FRACTAL_Z = 4, FORMAT_HWCN = 16, FORMAT_NDHWC = 27, FORMAT_FRACTAL_NZ = 29, FORMAT_NCDHW = 30,
    FORMAT_NDC1HWC0 = 32, FORMAT_FRACTAL_Z_3D = 33, FORMAT_DHWCN = 36, FORMAT_RESERVED = 40, FORMAT_MAX, FORMAT_NULL = 0x7fff
};
template <typename Given> Format GetPrimaryFormat(Given format) { return Format(int(format) & 0xff); }
using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0, GRAPH_FAILED = 0xFFFFFFFF, GRAPH_PARAM_INVALID = 50331649, GRAPH_PARAM_OUT_OF_RANGE = 50331650;
constexpr int64_t UNKNOWN_DIM = -1, UNKNOWN_DIM_NUM = -2;

inline int GetSizeByDataType(DataType type)
{
    switch (type) {
    case DT_INT8: case DT_UINT8: case DT_BOOL: return 1;
    case DT_FLOAT16: case DT_BF16: case DT_INT16: case DT_UINT16: return 2;
    case DT_FLOAT: case DT_INT32: case DT_UINT32: return 4;
    case DT_INT64: case DT_UINT64: case DT_DOUBLE: case DT_COMPLEX64: return 8;
    case DT_COMPLEX128: return 16;
    default: return -1;
    }
}
struct TypeUtils {
    static bool GetDataTypeLength(DataType type, uint32_t &length)
    {
        int size = GetSizeByDataType(type);
        if (size > 0) length = uint32_t(size);
        return size > 0;
    }
    static std::string DataTypeToSerialString(DataType type)
    {
        switch (type) {
        case DT_FLOAT: return "DT_FLOAT";
        case DT_FLOAT16: return "DT_FLOAT16";
        case DT_BF16: return "DT_BF16";
        case DT_INT4: return "DT_INT4";
        case DT_INT8: return "DT_INT8";
        case DT_UINT8: return "DT_UINT8";
        case DT_INT16: return "DT_INT16";
        case DT_UINT16: return "DT_UINT16";
        case DT_INT32: return "DT_INT32";
        case DT_UINT32: return "DT_UINT32";
        case DT_INT64: return "DT_INT64";
        case DT_UINT64: return "DT_UINT64";
        case DT_DOUBLE: return "DT_DOUBLE";
        case DT_BOOL: return "DT_BOOL";
        default: return "dtype " + std::to_string(int(type));
        }
    }
    static std::string FormatToSerialString(Format format)
    {
        switch (format) {
        case FORMAT_ND: return "ND";
        case FORMAT_NCHW: return "NCHW";
        case FORMAT_NHWC: return "NHWC";
        case FORMAT_NCDHW: return "NCDHW";
        case FORMAT_NDHWC: return "NDHWC";
        case FORMAT_FRACTAL_NZ: return "FRACTAL_NZ";
        case FORMAT_NC1HWC0: return "NC1HWC0";
        case FORMAT_NDC1HWC0: return "NDC1HWC0";
        case FORMAT_FRACTAL_Z: return "FRACTAL_Z";
        default: return "format " + std::to_string(int(format));
        }
    }
    static std::string DataTypeToAscendString(DataType type) { return DataTypeToSerialString(type); }
    static std::string FormatToAscendString(Format format) { return FormatToSerialString(format); }
};
class AscendString : public std::string {
public:
    using std::string::string;
    AscendString(const std::string &words) : std::string(words) {}
    const char *GetString() const { return c_str(); }
    size_t GetLength() const { return size(); }
};
} // namespace ge

#endif
