"""Compiles Triton IR for kilnd, inside one toolchain's own Python.

Runs with nothing but the standard library and `triton`. A module imports only what stands before it here:

  failure, elf, libc, usage, output    small things that know nothing of one another
  seccomp                              filters of system calls
  large_pages                          what makes forks cheaper
  libdevice                            what makes linking cheaper
  frames                               what goes over a job socket
  jail, limits                         what a worker may do, and what it may take
  source_text                          a request's text, before it is parsed
  ptxas_report, diagnosis              what an exception amounts to, and what to do about it
  toolchain, assembler                 Triton, and the programs that it assembles with
  module, origins, kernel              what is asked of the IR, put back into it, and said of the binary
  compiler                             from a request to the outputs of its stages
  reply                                what the daemon takes of these
  warm_kernel, description             what the toolchain can do
  worker, zygote                       processes
  program                              the command line

What these add to a request and decides the binary's bytes (source_text.SOURCE_STEM, origins, libc.do_not_randomize_programs,
seccomp.blind_programs, the dump_ptxas_log of assembler) is part of a toolchain's identity: whoever changes it raises kTritonCall
(daemon/toolchain/toolchain_files.cc).

All modules are imported before the first fork: a worker in its jail cannot read them.
"""
