package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

const (
	// refreshEvery is how often the node is asked.
	refreshEvery = time.Second
	// silence is how long an answer may take until the screen says that there is none.
	silence = 4 * time.Second
)

// ErrInterrupted is the error of [Show] when a person has pressed the keys for an interrupt.
var ErrInterrupted = errors.New("interrupted")

// Config configures [Show].
type Config struct {
	In     *os.File // terminal of the keys; nil for none
	Out    *os.File // terminal
	Colour bool     // whether text has colours
	First  *Answer

	// Ask asks the node. It is called again when it has returned.
	Ask func(ctx context.Context) (*Answer, error)
}

// screen is a terminal that shows frames. One goroutine uses it.
type screen struct {
	Config
	frame   Frame
	asked   time.Time // when the request began that is under way; zero: there is none
	answers chan answered
}

// answered is the outcome of a request.
type answered struct {
	*Answer
	err error
}

// Show shows the answers of a node on a terminal, a new one each second, until a person quits or the context ends. The terminal
// is as it was before when Show returns.
func Show(ctx context.Context, c Config) (err error) {
	restore, err := enter(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	ctx, cancel := context.WithCancel(ctx)
	s := &screen{Config: c, answers: make(chan answered, 1)}
	defer func() {
		cancel()
		if !s.asked.IsZero() {
			<-s.answers
		}
	}()
	s.frame = Frame{Answer: c.First, Colour: c.Colour, Keys: c.In != nil}
	return s.run(ctx)
}

// run shows frames.
func (s *screen) run(ctx context.Context) error {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	keys := s.readKeys()
	for {
		if err := s.draw(time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-resized:
		case got := <-s.answers:
			s.take(got)
		case <-tick.C:
			s.ask(ctx)
		case key := <-keys:
			switch key {
			case 'q', 'Q':
				return nil
			case 'C' - '@':
				return ErrInterrupted
			case 'p', 'P', ' ':
				s.frame.Paused = !s.frame.Paused
				s.ask(ctx)
			}
		}
	}
}

// ask begins a request, unless one is under way or the person has paused.
func (s *screen) ask(ctx context.Context) {
	if !s.asked.IsZero() || s.frame.Paused {
		return
	}
	s.asked = time.Now()
	go func() {
		got, err := s.Ask(ctx)
		s.answers <- answered{got, err}
	}()
}

func (s *screen) take(got answered) {
	s.asked = time.Time{}
	if got.err != nil {
		s.frame.Problem = got.err.Error()
		return
	}
	s.frame.Answer, s.frame.Problem = got.Answer, ""
}

// draw draws the frame. It overwrites the one before, so that nothing flickers.
func (s *screen) draw(now time.Time) error {
	f := s.frame
	f.Now, f.Since = now, f.Answer.At
	if f.Problem == "" && !s.asked.IsZero() && now.Sub(s.asked) > silence {
		f.Problem = "a request is under way"
	}
	var err error
	if f.Width, f.Height, err = term.GetSize(int(s.Out.Fd())); err != nil || f.Width < 1 || f.Height < 1 {
		f.Width, f.Height = 80, 24
	}
	_, err = fmt.Fprint(s.Out, "\x1b[H"+strings.Join(f.Lines(), "\x1b[K\r\n")+"\x1b[K\x1b[J")
	if err != nil {
		return fmt.Errorf("write to the terminal: %w", err)
	}
	return nil
}

// readKeys reads keys until the program ends: a read from a terminal cannot be broken off.
func (s *screen) readKeys() <-chan byte {
	keys := make(chan byte)
	if s.In == nil {
		return keys
	}
	go func() {
		var b [1]byte
		for {
			if n, err := s.In.Read(b[:]); err != nil || n == 0 {
				return
			}
			keys <- b[0]
		}
	}()
	return keys
}

// enter prepares the terminal. Its other screen is used, so that the text from before comes back.
func enter(c Config) (restore func() error, err error) {
	const begin, end = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
	var before *term.State
	if c.In != nil {
		if before, err = term.MakeRaw(int(c.In.Fd())); err != nil {
			return nil, fmt.Errorf("read single keys from the terminal: %w", err)
		}
	}
	_, err = fmt.Fprint(c.Out, begin)
	return func() error {
		_, err := fmt.Fprint(c.Out, end)
		if before != nil {
			err = errors.Join(err, term.Restore(int(c.In.Fd()), before))
		}
		return err
	}, err
}
