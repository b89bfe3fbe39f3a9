/* SPDX-License-Identifier: Apache-2.0
 * Where the boot loader (QEMU's -kernel) enters: 32 bits, flat, no paging, no interrupts. */
#define MAGIC 0x1badb002
#define WANTS_MEMORY_SIZE 2

    .section .multiboot, "a"
    .align 4
    .long MAGIC, WANTS_MEMORY_SIZE, -(MAGIC + WANTS_MEMORY_SIZE)

    .text
    .global start
start:
    mov $stack_top, %esp
    push %ebx /* what the loader knows */
    call writer_main

    .bss
    .align 16
    .skip 16384
stack_top:

    .section .note.GNU-stack, "", @progbits
