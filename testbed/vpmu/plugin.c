// SPDX-License-Identifier: Apache-2.0
/*
 * The QEMU TCG plugin: binds QEMU's callbacks to struct vm and brings the clock, the CPU number and the sleep.
 * A fault here kills a VM, so nothing here may fail after install: a refused configuration registers no callbacks and
 * the guest runs as if there were no plugin. qemu_plugin_reset is not used, it aborts QEMU 7.2.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cgroup.h"
#include "claim.h"
#include "guest_name.h"
#include "qemu_plugin_api.h"
#include "setup.h"

QEMU_PLUGIN_EXPORT int qemu_plugin_version = 1;
QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

/* Before QEMU reads the version: since 9.0 it refuses 1, before it knows no other. */
__attribute__((constructor)) static void choose_version(void)
{
    if (dlsym(RTLD_DEFAULT, "qemu_plugin_num_vcpus") != NULL)
        qemu_plugin_version = 2;
}

/* Where an x86 processor begins; the API has no callback for a reset. */
#define RESET_VECTOR 0xfffffff0u

static struct setup the_setup;
static struct vm *const the_vm = &the_setup.vm;

/* Of this vCPU thread, on modelled CPUs. */
static __thread struct claim_thread the_claims;
static __thread struct claim_clock the_claim_clock;
static __thread int the_cpu;

static uint64_t read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

/* A signal may end a sleep early: what is still owed is slept at the next tick. */
static void stall_for(uint64_t ns)
{
    if (the_setup.config.busy) {
        uint64_t end_ns = read_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
        while (read_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
            ;
        return;
    }
    const struct timespec span = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
}

static int modelled_cpu(void)
{
    return the_cpu;
}

/* On modelled CPUs: tells them what the kernel, and the records that stand for it, think of this thread. */
static void claim(struct vcpu *vcpu, uint64_t now)
{
    const struct claim_source source = {"/proc/self", CGROUP_MOUNT, the_setup.config.dir, the_setup.config.cpus};
    struct cpus_claim wanted;
    if (!vcpu->seat.table || now < the_claim_clock.read_ns + CLAIM_EVERY_NS)
        return;
    uint64_t cpu_ns = read_ns(CLOCK_THREAD_CPUTIME_ID);
    if (!claim_is_due(&the_claim_clock, now, cpu_ns))
        return;
    if (the_claims.tid != vcpu->slot->tid)
        claim_begin(&the_claims, &source, getpid(), vcpu->slot->tid);
    claim_read(&the_claims, &source, &wanted);
    cpus_claim(&vcpu->seat, &wanted);
    uint64_t end_cpu_ns = read_ns(CLOCK_THREAD_CPUTIME_ID);
    the_claim_clock = (struct claim_clock){now, end_cpu_ns, end_cpu_ns - cpu_ns};
    vcpu->seat.entry->tid = the_claims.tid;
    vcpu->seat.entry->thread_started_ticks = the_claims.tid_started_ticks;
}

/* What a vCPU gets of its CPU changes while it sleeps, so it looks again and again; QEMU must be able to stop it. */
static void sleep_on_modelled_cpu(struct vcpu *vcpu, uint64_t owed_ns)
{
    uint64_t until_ns = now_ns() + PACE_MAX_SLEEP_NS;
    while (owed_ns && now_ns() < until_ns) {
        uint64_t ns = cpus_patience_ns(&vcpu->seat, owed_ns, now_ns());
        stall_for(ns < PACE_MAX_SLEEP_NS ? ns : PACE_MAX_SLEEP_NS);
        owed_ns = vcpu_still_owes(vcpu, now_ns());
    }
}

static void on_memory(unsigned int index, qemu_plugin_meminfo_t info, uint64_t vaddr, void *unused)
{
    (void)unused;
    if (index >= the_vm->vcpu_count)
        return;
    struct vcpu *vcpu = &the_vm->vcpus[index];
    if (!vcpu->is_measured)
        return;
    bool is_write = qemu_plugin_mem_is_store(info);
    enum model_l1 l1 = model_l1(&vcpu->model, vaddr, is_write);
    if (l1 == MODEL_L1_HIT)
        return;
    const struct qemu_plugin_hwaddr *address = qemu_plugin_get_hwaddr(info, vaddr);
    if (address && !qemu_plugin_hwaddr_is_io(address))
        vcpu_accesses(the_vm, vcpu, l1, vaddr, qemu_plugin_hwaddr_phys_addr(address), is_write);
}

/* The wall clock; what it shows beyond the CPU time of a busy vCPU, whose thread this is, the vCPU was away. */
static uint64_t tell_time(struct vcpu *vcpu)
{
    uint64_t now = now_ns();
    if (the_setup.config.busy)
        vcpu->away_ns = now - read_ns(CLOCK_THREAD_CPUTIME_ID);
    return now;
}

/* QEMU's vcpu_init callback runs in the main thread; these run in the vCPU's own. */
static void note_thread(struct vcpu *vcpu)
{
    vcpu->slot->tid = (int32_t)syscall(SYS_gettid);
}

/* What a block's callback is told: its number of instructions, and whether they are the kernel's. */
static void *pack_block(size_t instructions, bool in_kernel)
{
    return (void *)(instructions << 1 | in_kernel);
}

static void on_block(unsigned int index, void *packed)
{
    if (index >= the_vm->vcpu_count)
        return;
    struct vcpu *vcpu = &the_vm->vcpus[index];
    if (!vcpu_runs(vcpu, (uintptr_t)packed >> 1))
        return;
    if (!vcpu->slot->tid)
        note_thread(vcpu);
    uint64_t now = tell_time(vcpu);
    claim(vcpu, now);
    uint64_t owed_ns = vcpu_tick(the_vm, vcpu, (uintptr_t)packed & 1, now);
    if (owed_ns && vcpu->seat.table)
        sleep_on_modelled_cpu(vcpu, owed_ns);
    else if (owed_ns)
        stall_for(owed_ns);
    if (vcpu->seat.table)
        the_cpu = cpus_current(&vcpu->seat);
}

static void on_reset_vector(unsigned int index, void *unused)
{
    (void)index;
    (void)unused;
    vm_reset(the_vm, now_ns());
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    (void)id;
    size_t instructions = qemu_plugin_tb_n_insns(block);
    bool in_kernel = qemu_plugin_tb_vaddr(block) >> 63;
    if (qemu_plugin_tb_vaddr(block) == RESET_VECTOR)
        qemu_plugin_register_vcpu_tb_exec_cb(block, on_reset_vector, QEMU_PLUGIN_CB_NO_REGS, NULL);
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS,
                                         pack_block(instructions, in_kernel));
    for (size_t i = 0; i < instructions; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), on_memory, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, NULL);
}

static void on_halt(qemu_plugin_id_t id, unsigned int index)
{
    (void)id;
    if (index >= the_vm->vcpu_count)
        return;
    note_thread(&the_vm->vcpus[index]);
    vcpu_halt(the_vm, &the_vm->vcpus[index], now_ns());
}

/* A vCPU that was unplugged and plugged in again comes back in another thread. */
static void on_resume(qemu_plugin_id_t id, unsigned int index)
{
    (void)id;
    if (index >= the_vm->vcpu_count)
        return;
    note_thread(&the_vm->vcpus[index]);
    vcpu_resume(&the_vm->vcpus[index], tell_time(&the_vm->vcpus[index]));
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *unused)
{
    (void)id;
    (void)unused;
    setup_close(&the_setup);
}

static bool read_arguments(struct config *config, int argc, char **argv, struct problem *problem)
{
    bool is_good = true;
    struct problem later;
    config_set_defaults(config);
    /* All of them even after a bad one: `dir` says where the refusal can be seen. */
    for (int i = 0; i < argc; i++)
        is_good = config_apply(config, argv[i], is_good ? problem : &later) && is_good;
    return is_good;
}

static bool take_name(struct config *config, struct problem *problem)
{
    return *config->name || guest_name_read(config->name, problem);
}

/* The guest is worth more than its counters: say why and let it run without them. */
static void run_without(const struct config *config, const struct problem *problem)
{
    struct problem unused;
    fprintf(stderr, "vpmu: %s\nvpmu: this VM runs without vpmu\n", problem->text);
    if (guest_name_check(config->name, &unused))
        error_file_write(config->dir, config->name, problem->text);
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    struct problem problem, unnamed;
    struct config *config = &the_setup.config;
    bool is_good = read_arguments(config, argc, argv, &problem);
    bool is_named = take_name(config, is_good ? &problem : &unnamed);
    uint32_t vcpu_count = info->system_emulation ? (uint32_t)info->system.max_vcpus : 0;
    if (!is_good || !is_named || !setup_vm(&the_setup, vcpu_count, config->cpus ? modelled_cpu : sched_getcpu, now_ns(), &problem)) {
        run_without(config, &problem);
        return 0;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_idle_cb(id, on_halt);
    qemu_plugin_register_vcpu_resume_cb(id, on_resume);
    qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
    return 0;
}
