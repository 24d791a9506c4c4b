package handlers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// keptStderr is how many bytes of the standard error are kept, the last ones: room for
// them and a few words is in task.MaxErrorText.
const keptStderr = 1536

// drainTime is how long the output of a command is waited for after its end and that of
// its group. Only a process that left the group can hold the pipe for so long; what the
// command itself printed is in the pipe by then and takes no time.
const drainTime = 2 * time.Second

// process is one run of a command, with its pipes. All of its goroutines have ended when
// wait returns.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File // our ends of the pipes
	out    [2]*os.File
	copies sync.WaitGroup
	stdout head // written by one of the copies until wait returns
	stderr tail // written by one of the copies until wait returns
}

// start starts the command and everything that serves it.
func start(cmd *exec.Cmd, input []byte, maxOutput int) (*process, error) {
	p := &process{cmd: cmd, stdout: head{max: maxOutput}}
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
	err := cmd.Start()
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
	exited := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-exited:
			return
		case <-ctx.Done():
		}
		stopped = true
		terminate(p.cmd.Process)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-exited:
		case <-timer.C:
			kill(p.cmd.Process)
		}
	})
	p.cmd.Wait() // its error says again what ProcessState says
	close(exited)
	watch.Wait()
	kill(p.cmd.Process) // what it left behind in its group
	p.stdin.Close()
	p.drain()
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
	if signal, killed := signalOf(p.cmd.ProcessState); killed {
		return signal
	}
	return fmt.Sprintf("exit code %d", p.cmd.ProcessState.ExitCode())
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
