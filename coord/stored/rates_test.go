package stored_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/stored"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

func TestRates(t *testing.T) {
	for name, b := range map[string]coordtest.Backend[coord.Rates]{
		"real time":      {Settle: 5 * time.Millisecond},
		"simulated time": {Bubble: true},
	} {
		b.New = func(*testing.T) func() coord.Rates {
			r := stored.NewRates(memory.New())
			return func() coord.Rates { return r }
		}
		t.Run(name, func(t *testing.T) { coordtest.RunRates(t, b) })
	}
}

// counted counts writes, and fails them with err.
type counted struct {
	storage.Settings
	writes int
	err    error
}

func (c *counted) SetSetting(ctx context.Context, name string, value []byte) error {
	if c.err != nil {
		return c.err
	}
	c.writes++
	return c.Settings.SetSetting(ctx, name, value)
}

// draw draws tokens of one rate.
func draw(t *testing.T, r *stored.Rates, interval time.Duration, burst, tokens int) int {
	t.Helper()
	got, err := r.Draw(t.Context(), coord.Draw{Name: "rate", Interval: interval, Burst: burst, Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Tokens
}

func TestARateIsNotExceededOverRestartsAndLosesLittle(t *testing.T) {
	const perSecond = 10_000
	for _, life := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := &counted{Settings: memory.New()}
			begin, granted, lives := time.Now(), 0, 0
			for time.Since(begin) < 20*time.Second {
				r := stored.NewRates(store)
				lives++
				for born := time.Now(); time.Since(born) < life; time.Sleep(time.Millisecond) {
					granted += draw(t, r, time.Second/perSecond, perSecond, 100)
				}
			}
			took := time.Since(begin)
			if most := perSecond + int(took*perSecond/time.Second); granted > most {
				t.Errorf("with restarts every %v, %d tokens were granted in %v, and the rate allows %d", life, granted, took, most)
			}
			least := int(took*perSecond/time.Second) - lives*perSecond/5
			if granted < least {
				t.Errorf("with restarts every %v, %d tokens were granted, want %d or more", life, granted, least)
			}
			if most := lives + int(took/(200*time.Millisecond)) + 5; store.writes > most {
				t.Errorf("%d tokens in %v and %d lives took %d writes, want %d at most", granted, took, lives, store.writes, most)
			}
		})
	}
}

func TestASlowRateLosesNothingByARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		for i, want := range []int{2, 2, 1, 0} {
			if got := draw(t, stored.NewRates(store), time.Hour, 5, 2); got != want {
				t.Errorf("after restart %d there are %d tokens, want %d", i, got, want)
			}
		}
		time.Sleep(time.Hour)
		if got := draw(t, stored.NewRates(store), time.Hour, 5, 2); got != 1 {
			t.Errorf("after an hour there are %d tokens, want 1", got)
		}
	})
}

func TestNothingIsGrantedThatCannotBeWritten(t *testing.T) {
	store := &counted{Settings: memory.New(), err: errors.New("the disk is full")}
	r := stored.NewRates(store)
	for range 2 {
		if got, err := r.Draw(t.Context(), coord.Draw{Name: "rate", Interval: time.Hour, Burst: 3, Tokens: 1}); !errors.Is(err, store.err) {
			t.Errorf("got %v, %v", got, err)
		}
	}
	store.err = nil
	draw(t, r, time.Hour, 3, 1)
	if got := draw(t, r, time.Hour, 3, 1); got != 0 {
		t.Errorf("%d tokens were granted twice by the same", got)
	}
	if got := draw(t, stored.NewRates(store), time.Hour, 3, 1); got != 0 {
		t.Errorf("%d tokens were granted twice", got)
	}
}

func TestRatesOfWhichNothingIsUsedUpAreRemovedFromTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		size := func() (n int) {
			for i := range 64 {
				value, err := store.Setting(t.Context(), fmt.Sprintf("%s%02d", storage.RatesSettings, i))
				if err != nil {
					t.Fatal(err)
				}
				n += len(value)
			}
			return n
		}
		r := stored.NewRates(store)
		fill := func(name string) {
			var draws []coord.Draw
			for i := range 1000 {
				draws = append(draws, coord.Draw{Name: fmt.Sprint(name, i), Interval: time.Second, Burst: 1, Tokens: 1})
			}
			if _, err := r.Draw(t.Context(), draws...); err != nil {
				t.Fatal(err)
			}
		}
		fill("a")
		first := size()
		for i := range 5 {
			time.Sleep(time.Minute)
			fill(string(rune('b' + i)))
		}
		if now := size(); now > first*11/10 {
			t.Errorf("a thousand rates take %d bytes, and after six thousand %d", first, now)
		}
	})
}

func TestADamagedSettingOfRatesIsAnError(t *testing.T) {
	store := memory.New()
	for i := range 64 {
		if err := store.SetSetting(t.Context(), fmt.Sprintf("%s%02d", storage.RatesSettings, i), []byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := stored.NewRates(store).Draw(t.Context(), coord.Draw{Name: "rate", Tokens: 1}); err == nil {
		t.Errorf("got %v", got)
	}
}
