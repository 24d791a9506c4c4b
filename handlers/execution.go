package handlers

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/taskengine/taskengine/internal/supervise"
	"github.com/taskengine/taskengine/task"
)

// stderrTail is how many of the last bytes of the standard error are kept for the error of the task. task.MaxErrorText
// has room for them and for a few words.
const stderrTail = 1536

// drainTime is how long output is read after the command and its process group have ended. Everything that the command
// itself wrote is in the pipe by then. Only a process that left the group, on a machine without control groups, can
// keep the pipe open for so long.
const drainTime = 2 * time.Second

// execution is one run of a command. Its goroutines have ended when wait returns.
type execution struct {
	cmd    *exec.Cmd
	run    *supervise.Process
	exit   supervise.Exit // set by wait
	copies sync.WaitGroup // of the goroutines that use the pipes
	stdout head           // written by one of these goroutines, read after wait
	stderr *supervise.Tail
	lines  *lines // written by the goroutine that reads the standard error, then by wait
}

// execute starts the command, with input as its standard input, and reads its output.
func execute(cmd *exec.Cmd, input []byte, maxOutput int, log task.Reporter, o supervise.Options) (*execution, error) {
	if o.Input = input; input == nil {
		o.Input = []byte{} // nil stands for a pipe
	}
	run, err := supervise.Start(cmd, o)
	if err != nil {
		return nil, err
	}
	x := &execution{
		cmd: cmd, run: run, stdout: head{max: maxOutput}, stderr: supervise.NewTail(stderrTail), lines: newLines(log),
	}
	x.copies.Go(func() { io.Copy(&x.stdout, run.Stdout) }) // ends with the output, or when drain closes the pipe
	x.copies.Go(func() { io.Copy(io.MultiWriter(x.stderr, x.lines), run.Stderr) })
	return x, nil
}

// wait waits for the end of the command and returns whether it was asked to end because ctx had ended. Then its
// process group gets SIGTERM, and SIGKILL after grace.
func (x *execution) wait(ctx context.Context, grace time.Duration) (stopped bool) {
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-x.run.Gone():
		case <-ctx.Done():
			stopped = true
			x.run.Stop(0, grace)
		}
	})
	x.exit = x.run.Wait()
	watch.Wait()
	x.drain()
	x.lines.end()
	return stopped
}

// drain reads the rest of the output for at most drainTime, and closes the pipes.
func (x *execution) drain() {
	timer := time.AfterFunc(drainTime, x.run.Pipes.Close)
	defer timer.Stop()
	x.copies.Wait()
	x.run.Pipes.Close()
}

// state says how the command ended.
func (x *execution) state() string {
	if x.exit.State == nil {
		return fmt.Sprintf("how it ended is unknown: %v", x.exit.Err)
	}
	text := fmt.Sprintf("exit code %d", x.exit.State.ExitCode())
	if signal, killed := signalOf(x.exit.State); killed {
		text = signal
	}
	if x.exit.OutOfMemory {
		text += ", out of the memory that it is allowed"
	}
	return text
}

// complaint returns the end of the standard error of the command, to append to an error.
func (x *execution) complaint() string {
	text, cut := x.stderr.Text()
	switch {
	case text == "":
		return ""
	case cut:
		return ": ..." + text
	}
	return ": " + text
}

// head is a writer that keeps the first max bytes.
type head struct {
	max  int
	kept []byte
	over bool // more than max bytes were written
}

// Write implements [io.Writer]. It never fails.
func (h *head) Write(b []byte) (int, error) {
	room := h.max - len(h.kept)
	h.over = h.over || len(b) > room
	h.kept = append(h.kept, b[:min(len(b), room)]...)
	return len(b), nil
}
