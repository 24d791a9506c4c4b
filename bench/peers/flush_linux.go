package main

import "syscall"

// flush has the kernel write what it holds back, and waits for it.
func flush() { syscall.Sync() }
