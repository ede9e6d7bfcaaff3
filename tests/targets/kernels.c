/* Leaf functions without unwind information, as numeric libraries have them: each blocks in a read of stdin. */
#define SAVES \
    "mov %rbx, (%rsp)\n mov %rbp, 8(%rsp)\n mov %r12, 16(%rsp)\n mov %r13, 24(%rsp)\n mov %r14, 32(%rsp)\n" \
    "mov %r15, 40(%rsp)\n"
#define RESTORES \
    "mov (%rsp), %rbx\n mov 8(%rsp), %rbp\n mov 16(%rsp), %r12\n mov 24(%rsp), %r13\n mov 32(%rsp), %r14\n" \
    "mov 40(%rsp), %r15\n"
#define READS "xor %eax, %eax\n xor %edi, %edi\n lea -64(%rsp), %rsi\n mov $1, %edx\n syscall\n"
#define FUNCTION(name, body) \
    __asm__(".text\n .globl " #name "\n .type " #name ", @function\n" #name ":\n" body "ret\n .size " #name ", .-" #name "\n"); \
    int name(void); \
    int call_##name(void) { return name() + 1; }

/* OpenBLAS's dgemm kernels: the stack is aligned, and rbx keeps where it was. */
FUNCTION(aligned, "sub $96, %rsp\n" SAVES "vzeroupper\n mov 104(%rsp), %r10\n mov %rsp, %rbx\n sub $0x7080, %rsp\n"
                  "and $-4096, %rsp\n xor %ebp, %ebp\n mov %rbp, %r12\n mov %rbp, %r13\n mov %rbp, %r14\n mov %rbp, %r15\n"
                  READS "mov %rbx, %rsp\n" RESTORES "add $96, %rsp\n")
FUNCTION(saved, "sub $128, %rsp\n" SAVES "xor %ebp, %ebp\n mov %rbp, %rbx\n mov %rbp, %r15\n" READS RESTORES
                "add $128, %rsp\n")
FUNCTION(pushed, "push %rbx\n push %rbp\n push %r12\n push %r15\n sub $24, %rsp\n xor %ebp, %ebp\n mov %rbp, %rbx\n"
                 "mov %rbp, %r12\n mov %rbp, %r15\n" READS "add $24, %rsp\n pop %r15\n pop %r12\n pop %rbp\n pop %rbx\n")
FUNCTION(plain, READS)
