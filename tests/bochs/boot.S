# Boot sector. Loads the SECTORS sectors behind it to 4 MiB, maps the first 64 MiB one to one, enters 64-bit mode with every vector
# state enabled that the CPU has (SSE, AVX, AVX-512), and calls the image with its stack below 2 MiB.
.set CHUNK, 64                          # sectors per BIOS call: 32 KiB

.code16
.globl boot
boot:
    cli
    cld
    xorw %ax, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw $0x7c00, %sp
    inb $0x92, %al                      # addresses above 1 MiB
    orb $2, %al
    outb %al, $0x92

    movw $((SECTORS + CHUNK - 1) / CHUNK), %bp
load:
    movb $0x42, %ah                     # extended read, first hard disk
    movb $0x80, %dl
    movw $packet, %si
    int $0x13
    jc failed
    movb $0x87, %ah                     # to where it belongs: the BIOS copies beyond 1 MiB
    movw $(CHUNK * 256), %cx
    movw $move, %si
    int $0x15
    jc failed
    addl $(CHUNK * 512), move_to
    addl $CHUNK, packet + 8
    decw %bp
    jnz load

    # Page tables: one entry of level 4 at 0x1000, one of level 3 at 0x2000, 32 pages of 2 MiB at 0x3000.
    movw $0x1000, %di
    xorw %ax, %ax
    movw $0x1800, %cx
    rep stosw
    movl $0x2003, 0x1000
    movl $0x3003, 0x2000
    movw $0x3000, %di
    movl $0x83, %eax
    movw $32, %cx
map:
    movl %eax, (%di)
    addl $0x200000, %eax
    addw $8, %di
    loop map

    movl $0x1000, %eax
    movl %eax, %cr3
    movl $0x40620, %eax                 # physical address extension, SSE, SSE exceptions, XSAVE
    movl %eax, %cr4
    movl $0xc0000080, %ecx              # long mode
    rdmsr
    orl $0x100, %eax
    wrmsr
    lgdt table
    movl $0x80000033, %eax              # paging, protection, coprocessor with native errors
    movl %eax, %cr0
    ljmp $8, $long

failed:
    movw $0x3f8, %dx
    movb $'!', %al
    outb %al, %dx
    hlt

.balign 4
packet: .byte 16, 0
    .word CHUNK, 0, 0x1000
    .quad 1
.balign 8
move: .fill 16, 1, 0                    # descriptors: 64 KiB from 0x10000, 64 KiB from 4 MiB on
    .word 0xffff
    .long 0x93010000
    .word 0
    .word 0xffff
move_to: .long 0x93400000
    .word 0
    .fill 16, 1, 0
.balign 8
segments: .quad 0, 0x00209a0000000000, 0x0000920000000000
table: .word 23
    .long segments

.code64
long:
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl $0xd, %eax                     # which states the CPU can save
    xorl %ecx, %ecx
    cpuid
    andl $0xe7, %eax
    xorl %edx, %edx
    xorl %ecx, %ecx
    xsetbv
    movl $0x200000, %esp
    movl $0x400000, %eax
    call *%rax
stop:
    hlt
    jmp stop

.org 510
    .word 0xaa55
