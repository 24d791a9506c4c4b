package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/task"
)

// treeHandler is the handler of tasks of trees in a plugin. Each attempt takes some milliseconds. What must not happen is appended to a file.
func treeHandler(seed, faults string) func(context.Context, *task.Task) ([]byte, error) {
	number, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		panic(err)
	}
	handle := enginetest.TreeHandler(number, func(format string, args ...any) {
		f, err := os.OpenFile(faults, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		if _, err := fmt.Fprintf(f, format+"\n", args...); err != nil {
			panic(err)
		}
	})
	return func(ctx context.Context, t *task.Task) ([]byte, error) {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		return handle(ctx, t)
	}
}
