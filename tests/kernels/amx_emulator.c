/*
 * amx_emulator.c: runs AMX instructions on x86-64 processors without AMX. Such a
 * processor raises SIGILL; the handler reads the instruction, does its work on
 * tiles in memory (tile_amx.h) and goes on behind it. So the tests run the
 * kernels as they are compiled for AMX, instruction by instruction.
 *
 * AMX runs only where AVX512BF16 does, so the handler may use AVX-512.
 *
 * Stricter than a processor: only the one tile configuration that the kernels
 * use is accepted, and when the program ends no thread may have kept its tiles.
 * Linked into a test, it is there from the start.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "engine/base/instructions.h"

#ifdef AF_HAVE_AMX
AF_INSTRUCTIONS_AVX512

#include "engine/cpu/tile_amx.h"

/* The prefix that the pp field of VEX stands for (Intel SDM volume 2, 2.3.6). */
enum { PREFIX_NONE, PREFIX_66, PREFIX_F3, PREFIX_F2 };

/* One instruction: C4, two bytes of VEX, opcode, ModRM, operand. */
struct instruction {
    int prefix, opcode;
    int reg, rm, vvvv; /* tile numbers; rm when there is no memory operand */
    bool has_memory;
    char *address; /* base plus displacement */
    int64_t index; /* register times scale */
    int length;
};

static _Thread_local struct af_tile tiles[8];
static _Thread_local bool configured;
static atomic_int threads_configured;

static _Noreturn void stop(const char *why, const uint8_t *code)
{
    fprintf(stderr, "amx_emulator: %s: %02x %02x %02x %02x %02x\n", why, code[0], code[1],
            code[2], code[3], code[4]);
    abort();
}

/* The value of general register `number` as instructions number them. */
static int64_t register_value(const ucontext_t *context, int number)
{
    static const int places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                   REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                   REG_R12, REG_R13, REG_R14, REG_R15};
    return context->uc_mcontext.gregs[places[number]];
}

static int64_t displacement(const uint8_t *at, int bytes)
{
    int32_t wide = 0;
    if (bytes == 1)
        return (int8_t)at[0];
    if (bytes == 4)
        memcpy(&wide, at, sizeof wide);
    return wide;
}

/* Reads the memory operand behind ModRM (Intel SDM volume 2, 2.1.5). */
static void read_memory(struct instruction *in, const uint8_t *code, const ucontext_t *context)
{
    const int mod = code[4] >> 6, low = code[4] & 7;
    const int high_base = (code[1] & 0x20) == 0 ? 8 : 0;
    const int high_index = (code[1] & 0x40) == 0 ? 8 : 0;
    const int bytes = mod == 1 ? 1 : mod == 2 || (mod == 0 && low == 5) ? 4 : 0;
    int64_t base = 0;
    in->length = 5 + (low == 4) + bytes;
    if (low == 4) {
        const int scale = code[5] >> 6, index = (code[5] >> 3 & 7) | high_index;
        if (mod == 0 && (code[5] & 7) == 5)
            stop("operand without base", code);
        base = register_value(context, (code[5] & 7) | high_base);
        in->index = index == 4 ? 0 : register_value(context, index) * (1 << scale);
    } else if (mod == 0 && low == 5) {
        base = (int64_t)(intptr_t)code + in->length; /* relative to the next instruction */
    } else {
        base = register_value(context, low | high_base);
    }
    base += displacement(code + in->length - bytes, bytes);
    in->address = (char *)(intptr_t)base;
}

/* VEX with a map of 0F38, W and L of 0, and an opcode that nothing but AMX has there. */
static bool is_amx(const uint8_t *code)
{
    return code[0] == 0xC4 && (code[1] & 0x1F) == 2 && (code[2] & 0x84) == 0 &&
           (code[3] == 0x49 || code[3] == 0x4B || code[3] == 0x5C);
}

static struct instruction decode(const uint8_t *code, const ucontext_t *context)
{
    struct instruction in = {.length = 5};
    if (!is_amx(code))
        stop("not an AMX instruction", code);
    in.prefix = code[2] & 3;
    in.vvvv = ~code[2] >> 3 & 15;
    in.opcode = code[3];
    in.reg = code[4] >> 3 & 7;
    in.rm = code[4] & 7;
    in.has_memory = code[4] >> 6 != 3;
    if (in.has_memory)
        read_memory(&in, code, context);
    return in;
}

static void configure(const char *from, const uint8_t *code)
{
    uint8_t wanted[64] = {1};
    for (int t = 0; t < 8; t++) {
        wanted[16 + 2 * t] = AF_TILE_BYTES;
        wanted[48 + t] = AF_TILE_ROWS;
    }
    if (memcmp(from, wanted, sizeof wanted) != 0)
        stop("another configuration of tiles", code);
    memset(tiles, 0, sizeof tiles);
    atomic_fetch_add(&threads_configured, !configured);
    configured = true;
}

static void release(void)
{
    atomic_fetch_sub(&threads_configured, configured);
    configured = false;
}

static void execute(const struct instruction *in, const uint8_t *code)
{
    const int what = in->opcode << 4 | in->prefix << 1 | in->has_memory;
    if (what == (0x49 << 4 | PREFIX_NONE << 1 | 1)) {
        configure(in->address, code);
        return;
    }
    if (!configured)
        stop("tiles are not configured", code);
    switch (what) {
    case 0x49 << 4 | PREFIX_NONE << 1 | 0:
        release();
        return;
    case 0x49 << 4 | PREFIX_F2 << 1 | 0:
        memset(&tiles[in->reg], 0, sizeof tiles[0]);
        return;
    case 0x4B << 4 | PREFIX_F2 << 1 | 1:
        af_tile_load(&tiles[in->reg], in->address, in->index);
        return;
    case 0x4B << 4 | PREFIX_F3 << 1 | 1:
        af_tile_store(&tiles[in->reg], in->address, in->index);
        return;
    case 0x5C << 4 | PREFIX_F3 << 1 | 0:
        if (in->vvvv > 7 || in->reg == in->rm || in->reg == in->vvvv || in->rm == in->vvvv)
            stop("a product needs three different tiles", code);
        af_tile_dot(&tiles[in->reg], &tiles[in->rm], &tiles[in->vvvv]);
        return;
    default:
        stop("unknown instruction", code);
    }
}

static void handle(int number, siginfo_t *info, void *memory)
{
    ucontext_t *context = memory;
    const uint8_t *code = (const uint8_t *)(intptr_t)context->uc_mcontext.gregs[REG_RIP];
    (void)number, (void)info;
    do { /* several in a row: a signal takes longer than all of them */
        const struct instruction in = decode(code, context);
        execute(&in, code);
        code += in.length;
    } while (is_amx(code));
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)(intptr_t)code;
}

AF_INSTRUCTIONS_END

static void check_end(void)
{
    if (atomic_load(&threads_configured) != 0) {
        fprintf(stderr, "amx_emulator: a thread kept its tiles\n");
        abort();
    }
}

/* In place of libc's, because cmocka replaces handlers before each test. */
__attribute__((visibility("default"))) void (*signal(int number, void (*handler)(int)))(int)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
    if (number == SIGILL || sigaction(number, &action, &old) != 0)
        return SIG_DFL;
    return old.sa_handler;
}

static __attribute__((constructor)) void start(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
    atexit(check_end);
}
#endif
