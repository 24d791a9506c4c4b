package capacity

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pauses lets goroutines wait with timers of the kernel. Timers of the runtime are late by up to a
// millisecond when the process is mostly idle.
type pauses struct {
	mu   sync.Mutex
	idle []*os.File // guarded by mu: timers that are not in use
}

// wait returns after d.
func (p *pauses) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer, err := p.take()
	if err != nil {
		return err
	}
	defer p.give(timer)
	raw, err := timer.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	var failed error
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	if err := raw.Control(func(fd uintptr) { failed = unix.TimerfdSettime(int(fd), 0, &spec, nil) }); err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	if failed != nil {
		return fmt.Errorf("wait: %w", failed)
	}
	var expired [8]byte
	if _, err := timer.Read(expired[:]); err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	return nil
}

func (p *pauses) take() (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		timer := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return timer, nil
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	return os.NewFile(uintptr(fd), "timer"), nil
}

func (p *pauses) give(timer *os.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, timer)
}

// close releases the timers. It must not be called while a goroutine waits.
func (p *pauses) close() {
	for _, timer := range p.idle {
		timer.Close()
	}
}
