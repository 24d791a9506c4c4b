package handlers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/supervise"
)

// keptStderr is how many bytes of the standard error are kept, the last ones: room for
// them and a few words is in task.MaxErrorText.
const keptStderr = 1536

// drainTime is how long the output of a command is waited for after its end and that of
// its group. Only a process that left the group, where there is no control group, can hold
// the pipe for so long; what the command itself printed is in the pipe by then and takes
// no time.
const drainTime = 2 * time.Second

// process is one run of a command, with its pipes. All of its goroutines have ended when
// wait returns.
type process struct {
	cmd    *exec.Cmd
	run    *supervise.Process
	end    supervise.End // how it ended; read it after wait
	stdin  *os.File      // our ends of the pipes
	out    [2]*os.File
	copies sync.WaitGroup
	stdout head // written by one of the copies until wait returns
	stderr said // written by one of the copies until wait returns
}

// start starts the command and everything that serves it.
func start(cmd *exec.Cmd, input []byte, maxOutput int, log task.Reporter, o supervise.Options) (*process, error) {
	p := &process{cmd: cmd, stdout: head{max: maxOutput}, stderr: said{lines: lines{to: log}}}
	var theirs []*os.File
	closeAll := func(files ...*os.File) {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(theirs, p.stdin, p.out[0], p.out[1])...)
			return nil, err
		}
		switch i {
		case 0:
			theirs, p.stdin, cmd.Stdin = append(theirs, r), w, r
		case 1:
			theirs, p.out[0], cmd.Stdout = append(theirs, w), r, w
		case 2:
			theirs, p.out[1], cmd.Stderr = append(theirs, w), r, w
		}
	}
	var err error
	p.run, err = supervise.Start(cmd, o)
	closeAll(theirs...)
	if err != nil {
		closeAll(p.stdin, p.out[0], p.out[1])
		return nil, err
	}
	p.copies.Go(func() {
		p.stdin.Write(input) // a command need not read all of it, or any
		p.stdin.Close()
	})
	p.copies.Go(func() { pour(&p.stdout, p.out[0]) })
	p.copies.Go(func() { pour(&p.stderr, p.out[1]) })
	return p, nil
}

// wait returns when the command has ended and all that served it. It reports whether
// the command was asked to end because ctx had ended.
func (p *process) wait(ctx context.Context, grace time.Duration) (stopped bool) {
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-p.run.Gone():
			return
		case <-ctx.Done():
		}
		stopped = true
		p.run.Signal(syscall.SIGTERM)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.run.Gone():
		case <-timer.C:
			p.run.Signal(syscall.SIGKILL)
		}
	})
	p.end = p.run.Wait()
	watch.Wait()
	p.stdin.Close()
	p.drain()
	p.stderr.lines.end()
	return stopped
}

// drain waits for the rest of the output, but not for ever.
func (p *process) drain() {
	done := make(chan struct{})
	go func() {
		p.copies.Wait()
		close(done)
	}()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	p.out[0].Close()
	p.out[1].Close()
	<-done
}

// state says how the command ended.
func (p *process) state() string {
	if p.end.State == nil {
		return fmt.Sprintf("how it ended is unknown: %v", p.end.Err)
	}
	how := fmt.Sprintf("exit code %d", p.end.State.ExitCode())
	if signal, killed := signalOf(p.end.State); killed {
		how = signal
	}
	if p.end.OutOfMemory {
		how += ", out of the memory that it is allowed"
	}
	return how
}

// output returns what the command printed, and whether that is all of it.
func (p *process) output() (printed []byte, whole bool) {
	return p.stdout.kept, !p.stdout.over
}

// pour copies from to until its end.
func pour(to interface{ take([]byte) }, from *os.File) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		to.take(buf[:n])
		if err != nil {
			return // io.EOF, or drain has closed it
		}
	}
}

// head keeps the first max bytes it is given.
type head struct {
	max  int
	kept []byte
	over bool // it was given more
}

func (h *head) take(b []byte) {
	room := h.max - len(h.kept)
	h.over = h.over || len(b) > room
	h.kept = append(h.kept, b[:min(len(b), room)]...)
}

// said is what a command says on its standard error: the end of it is kept for an error,
// and its lines are logged.
type said struct {
	tail  tail
	lines lines
}

func (s *said) take(b []byte) {
	s.tail.take(b)
	s.lines.take(b)
}

// tail keeps the last keptStderr bytes it is given.
type tail struct {
	kept []byte
	cut  bool // it was given more
}

func (t *tail) take(b []byte) {
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*keptStderr {
		t.kept, t.cut = append(t.kept[:0], t.kept[len(t.kept)-keptStderr:]...), true
	}
}

func (t *tail) bytes() []byte {
	if len(t.kept) > keptStderr {
		t.kept, t.cut = t.kept[len(t.kept)-keptStderr:], true
	}
	return t.kept
}
