package lease

import (
	"context"
	"errors"
	"testing"
)

var errLost = errors.New("lost")

func TestALeaderKeepsWhatItsFunctionReturnedOnlyIfItStillLed(t *testing.T) {
	errOfFn := errors.New("of fn")
	for _, c := range []struct {
		name string
		lose bool
		held bool
	}{{"held", false, true}, {"lost", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			var l *Lease
			held, err := Lead(t.Context(),
				func(given *Lease) { l = given; l.Grant() },
				func() bool { return !c.lose },
				func(ctx context.Context) error {
					if c.lose {
						l.Lose(errLost)
						if got := context.Cause(ctx); !errors.Is(got, errLost) {
							t.Errorf("the context ended because of %v, want %v", got, errLost)
						}
					} else if ctx.Err() != nil {
						t.Error("the context of a leader has ended")
					}
					return errOfFn
				})
			if held != c.held || c.held && !errors.Is(err, errOfFn) {
				t.Errorf("Lead returned %v, %v", held, err)
			}
		})
	}
}

func TestAFunctionIsNotCalledWithoutALease(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		ctx     context.Context
		request func(*Lease)
	}{
		"refused":             {t.Context(), func(l *Lease) { l.Refuse(errLost) }},
		"lost at once":        {t.Context(), func(l *Lease) { l.Grant(); l.Lose(errLost) }},
		"ended while waiting": {ended, func(*Lease) {}},
	} {
		released := false
		held, _ := Lead(c.ctx, c.request, func() bool { released = true; return false },
			func(context.Context) error { t.Errorf("%s: fn was called", name); return nil })
		if held || !released {
			t.Errorf("%s: held %v, released %v", name, held, released)
		}
	}
}

func TestALeaseIsReleasedAfterAPanic(t *testing.T) {
	released := false
	defer func() {
		if recover() == nil || !released {
			t.Errorf("released %v, or the panic was swallowed", released)
		}
	}()
	_, _ = Lead(t.Context(), (*Lease).Grant, func() bool { released = true; return true },
		func(context.Context) error { panic("oops") })
}
