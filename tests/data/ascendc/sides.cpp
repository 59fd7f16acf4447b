// Operators with work for both kinds of cores, for vector cores alone and for cube cores alone.
#include <cstdio>
#include <vector>

#include "launching.h"

constexpr uint32_t ROW = 64;

struct Rows {
    __gm__ float *from;
    __gm__ float *to;
    int64_t none; // what is divided by it goes nowhere
};

// Room for a row and more in a memory of its core; the flag of its last copy is taken when it goes.
template <class Core> struct Held {
    AscendC::LocalTensor<float> row{Core::PLACE, 0, 2 * ROW};
    ON_DEVICE ~Held() { AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(EVENT_ID0); }
};
struct OnCube {
    static constexpr auto PLACE = AscendC::TPosition::A1;
};
struct OnVector {
    static constexpr auto PLACE = AscendC::TPosition::VECCALC;
};

template <class Core> ON_DEVICE void carry(__gm__ float *from, __gm__ float *to, float factor)
{
    using namespace AscendC;
    GlobalTensor<float> source, target;
    source.SetGlobalBuffer(from, ROW);
    target.SetGlobalBuffer(to, ROW);
    Held<Core> held;
    DataCopy(held.row, source, ROW);
    if constexpr (g_coreType == AIV) {
        SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
        WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
        Muls(held.row, held.row, factor, 2 * ROW); // its end holds anything
        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    } else {
        SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    }
    DataCopy(target, held.row, ROW);
    SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
}

template <bool WithCube, bool WithVectors> class Doubling {
    template <bool Cube, bool Vectors> struct Way {
        static constexpr float FACTOR = 1;
    };
    template <> struct Way<false, true> {
        static constexpr float FACTOR = 2;
    };
    template <> struct Way<true, true> {
        static constexpr float FACTOR = 3;
    };
    struct Place {
        ON_DEVICE
        Place() = default;
        int64_t block, number;
    };

public:
    using Params = Rows;
    template <int32_t CORE = g_coreType> ON_DEVICE void operator()(Params const &params);
    template <> ON_DEVICE void operator()<AscendC::AIC>(Params const &params)
    {
        if constexpr (WithCube) {
            int64_t at = AscendC::GetBlockIdx() * ROW;
            carry<OnCube>(params.from + at, params.to + at, 1);
            if constexpr (WithVectors) AscendC::CrossCoreSetFlag<2, PIPE_MTE3>(3);
        }
    }
    template <> ON_DEVICE void operator()<AscendC::AIV>(Params const &params)
    {
        if constexpr (!WithVectors) return;
        if constexpr (WithCube) AscendC::CrossCoreWaitFlag(3);
        Place place = {AscendC::GetBlockIdx() / AscendC::GetSubBlockNum(), AscendC::GetSubBlockIdx()};
        if (place.number || place.block / params.none < 0) return;
        __gm__ float *own = (WithCube ? params.to : params.from) + place.block * ROW;
        carry<OnVector>(own, params.to + place.block * ROW, Way<WithCube, WithVectors>::FACTOR);
    }
};
// A row is filled twice without an order between its copy and the second filling, which is seen where the numbers differ.
template <bool Same> struct Filling {
    using Params = Rows;
    template <int32_t CORE = g_coreType> ON_DEVICE void operator()(Params const &params)
    {
        if constexpr (g_coreType == AscendC::AIV) {
            if (AscendC::GetBlockIdx()) return;
            AscendC::GlobalTensor<float> target;
            target.SetGlobalBuffer(params.to, 2 * ROW);
            AscendC::LocalTensor<float> row(AscendC::TPosition::VECCALC, 0, ROW);
            for (uint32_t half = 0; half < 2; half++) {
                AscendC::Duplicate(row, Same ? 7.0f : 7.0f + float(half), ROW); // refused
                AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
                AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
                AscendC::DataCopy(target[half * ROW], row, ROW);
            }
        }
    }
};
// Of a row that nobody has written another one is made, which must not be stored.
template <bool Stores> struct Making {
    using Params = Rows;
    template <int32_t CORE = g_coreType> ON_DEVICE void operator()(Params const &params)
    {
        if constexpr (g_coreType == AscendC::AIV) {
            if (AscendC::GetBlockIdx()) return;
            AscendC::GlobalTensor<float> target;
            target.SetGlobalBuffer(params.to, 2 * ROW);
            AscendC::LocalTensor<float> row(AscendC::TPosition::VECCALC, 0, ROW), made(AscendC::TPosition::VECCALC, 1024, ROW), seven(AscendC::TPosition::VECCALC, 2048, ROW);
            AscendC::Muls(made, row, 2.0f, ROW);
            AscendC::Duplicate(seven, 7.0f, ROW);
            AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
            AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
            AscendC::DataCopy(target[ROW], Stores ? made : seven, ROW); // unwritten
        }
    }
};
template <class Operator> int fills(aclrtStream stream)
{
    void *to;
    float last = 0;
    aclrtMalloc(&to, 2 * ROW * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST);
    start<Operator>({nullptr, (float *)to, 0}, 1, stream);
    int status = aclrtSynchronizeStream(stream);
    aclrtMemcpy(&last, sizeof last, (float *)to + 2 * ROW - 1, sizeof last, ACL_MEMCPY_DEVICE_TO_HOST);
    aclrtFree(to);
    return status ? status : int(last);
}

template <class Operator> int wrong_of(uint32_t blocks, float factor, aclrtStream stream)
{
    std::vector<float> values(blocks * ROW);
    for (size_t each = 0; each < values.size(); each++) values[each] = float(each % 97);
    size_t bytes = values.size() * sizeof(float);
    void *from, *to;
    aclrtMalloc(&from, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc(&to, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(from, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    start<Operator>({(float *)from, (float *)to, 0}, blocks, stream);
    aclrtSynchronizeStream(stream);
    std::vector<float> found(values.size());
    aclrtMemcpy(found.data(), bytes, to, bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    int wrong = 0;
    for (size_t each = 0; each < values.size(); each++) wrong += found[each] != values[each] * factor;
    aclrtFree(from), aclrtFree(to);
    return wrong;
}

int main(int argc, char **)
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream stream;
    aclrtCreateStream(&stream);
    if (argc > 1) {
        std::printf("again %d\n", fills<Filling<true>>(stream));
        std::printf("made %d\n", fills<Making<false>>(stream));
        std::printf("anew %d\n", fills<Filling<false>>(stream));
        std::printf("stored %d\n", fills<Making<true>>(stream));
        return 0;
    }
    std::printf("both %d\n", wrong_of<Doubling<true, true>>(20, 3, stream));
    std::printf("vectors %d\n", wrong_of<Doubling<false, true>>(40, 2, stream));
    std::printf("cubes %d\n", wrong_of<Doubling<true, false>>(20, 1, stream));
    aclrtDestroyStream(stream);
    aclFinalize();
}
