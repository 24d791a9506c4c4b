//go:build !linux

package bench

import "github.com/taskengine/taskengine/bench/result"

func describe(*result.Machine, string) {}
