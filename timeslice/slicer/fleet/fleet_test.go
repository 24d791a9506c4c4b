//go:build !race

package fleet

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

var (
	flagSeed  = flag.Uint64("fleet.seed", 1, "the seed of the first fleet")
	flagCount = flag.Uint64("fleet.count", 2, "how many fleets; each has the seed after that of the one before")
	flagDays  = flag.Float64("fleet.days", 0.25, "how many days of changing weather each fleet has")
	flagAll   = flag.Bool("fleet.all", false, "print all that happened to a platform about which the test fails")
	flagShops = flag.Int("fleet.platforms", 10, "how many platforms each fleet begins with")
)

// Each instant of each platform is fetched by one slice, after it has passed, whatever happens, and the low-water mark is never ahead of that.
func TestAFleetFetchesEachInstantOnce(t *testing.T) {
	for seed := *flagSeed; seed < *flagSeed+*flagCount; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cryptotest.SetGlobalRandom(t, seed)
				time.Sleep(time.Until(time.Date(2000, time.March, 26, 0, 0, 0, 0, time.UTC).Add(-time.Duration(*flagDays * float64(12*time.Hour))))) // the clocks of Europe change halfway
				f := newFleet(t, seed)
				defer f.close()
				for end := time.Now().Add(time.Duration(*flagDays * float64(24*time.Hour))); time.Now().Before(end) && !t.Failed(); {
					f.act()
					time.Sleep(f.span(0, 4*time.Minute))
					f.look()
				}
				f.calm()
				f.judge()
			})
		})
	}
}

// The witness takes no attempt for a failed one that was interrupted: it does not count, and one that is lost with its node meanwhile does.
func TestAnInterruptedAttemptIsNotTakenForAFailedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		defer f.close()
		n, end := f.nodes[0], time.Now().Add(-time.Hour)
		w := timeslice.Work{Source: "orders", Platform: f.all()[0].name, From: end.Add(-time.Minute), Start: end.Add(-time.Minute), End: end}
		one := &task.Task{ID: task.ID{1}}
		for one.Attempt = 1; one.Attempt <= 2; one.Attempt++ {
			slice, s, _, _ := f.begin(n, one, w)
			f.ended(n, s, slice, w, context.Canceled)
		}
	})
}

// fleet has all participants.
type fleet struct {
	t     *testing.T
	store *memory.Store
	first *local.Node
	ahead atomic.Int64 // how far the clock that the nodes share is ahead
	away  atomic.Bool  // the store does not answer
	lossy atomic.Bool  // the store loses answers

	nodes []*node // by the goroutine of the test
	born  int     // likewise

	mu        sync.Mutex
	random    *rand.Rand       // guarded by mu
	shops     map[string]*shop // guarded by mu
	disturbed time.Time        // guarded by mu: when an attempt was last ended, or a write last lost, by something else than its handler
	unclear   time.Time        // guarded by mu: when the clock was last set
	setBack   int              // guarded by mu: how often it was set back
	moves     int              // guarded by mu: how often a platform may have moved its cursor because of that
	said      []string         // guarded by mu
}

func newFleet(t *testing.T, seed uint64) *fleet {
	f := &fleet{t: t, store: memory.New(), first: local.New(), random: rand.New(rand.NewPCG(seed, 17)), shops: make(map[string]*shop)}
	for range *flagShops {
		f.newShop()
	}
	for range 3 {
		f.open()
	}
	return f
}

func (f *fleet) close() {
	for _, n := range slices.Clone(f.nodes) {
		f.end(n, true)
	}
}

// roll returns a number of 0 to n-1.
func (f *fleet) roll(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

func (f *fleet) span(from, to time.Duration) time.Duration {
	return from + time.Duration(f.roll(int((to-from)/time.Millisecond)))*time.Millisecond
}

func (f *fleet) pick(of ...string) string { return of[f.roll(len(of))] }

// shop returns a platform.
func (f *fleet) shop() *shop {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := f.names()
	return f.shops[names[f.random.IntN(len(names))]]
}

// names returns the names of the platforms. It is called with mu held.
func (f *fleet) names() (names []string) {
	for name := range f.shops {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (f *fleet) all() (all []*shop) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.names() {
		all = append(all, f.shops[name])
	}
	return all
}

// disturb records that attempts may be repeated that began before now.
func (f *fleet) disturb() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disturbed = time.Now()
}

// say records an event of the whole fleet.
func (f *fleet) say(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, fmt.Sprintf("%v %s", time.Now().UTC().Format(stamp), fmt.Sprintf(format, args...)))
}

const stamp = "01-02 15:04:05.000"

// fail fails the test with the history of a platform.
func (f *fleet) fail(s *shop, format string, args ...any) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failLocked(s, format, args...)
}

func (f *fleet) failLocked(s *shop, format string, args ...any) {
	f.t.Helper()
	f.failBy(s, func(history []string) []string { return history[max(0, len(history)-60):] }, format, args...)
}

// failAt fails the test because of an instant, with what happened when slices that have it were last attempted.
func (f *fleet) failAt(s *shop, at time.Time, format string, args ...any) {
	f.t.Helper()
	const around = 90 * time.Minute
	of := slices.DeleteFunc(slices.Clone(s.order), func(one *slice) bool { return at.Before(one.Start) || !at.Before(one.End) })
	for _, one := range of {
		format += "\n\tattempt %d of the slice from %v to %v began at %v and ended at %v, good: %v"
		args = append(args, one.last.number, one.Start, one.End, one.last.begin.UTC(), one.last.end.UTC(), one.last.isGood)
	}
	f.failBy(s, func(history []string) []string {
		return slices.DeleteFunc(history, func(line string) bool {
			return !slices.ContainsFunc(of, func(one *slice) bool {
				return line > one.last.begin.UTC().Add(-around).Format(stamp) && line < one.last.begin.UTC().Add(around).Format(stamp)
			})
		})
	}, format, args...)
}

// failBy fails the test with a part of the history.
func (f *fleet) failBy(s *shop, part func([]string) []string, format string, args ...any) {
	f.t.Helper()
	if f.t.Failed() {
		return
	}
	history := slices.Concat(f.said, s.said)
	slices.Sort(history)
	text := ""
	if !*flagAll {
		history = part(history)
	}
	for _, line := range history {
		text += "\n\t" + line
	}
	f.t.Errorf("%s %s: %s%s", time.Now().UTC().Format(stamp), s.name, fmt.Sprintf(format, args...), text)
}

// ClockAt implements [coord.Clock].
func (f *fleet) ClockAt(t time.Time) (time.Time, time.Duration, bool) {
	return t.Add(time.Duration(f.ahead.Load())), 0, true
}

// definition returns what a configuration has.
func (f *fleet) definition() timeslice.Definition {
	d := timeslice.Definition{Type: "fetch", Platforms: make(map[string]timeslice.Values)}
	f.set(&d.Values, map[string]string{
		"interval": f.pick("5m", "10m", "15m"), "overlap": "20s", "retries": "3", "retry_interval": f.pick("10s", "20s"), "probe": "2m", "max_open": f.pick("5", "20"),
		"timeout": "40s", "catch_up_interval": f.pick("15m", "1h", "3h"),
	})
	for _, s := range f.all() {
		if s.isNamed {
			d.Platforms[s.name] = s.own
		}
	}
	return d
}

func (f *fleet) set(v *timeslice.Values, all map[string]string) {
	for name, text := range all {
		if err := v.Set(name, text); err != nil {
			f.t.Error(err)
		}
	}
}

// eventually calls do until it has no error, for a while.
func (f *fleet) eventually(what string, do func(context.Context) error) {
	var err error
	for range 100 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		err = do(ctx)
		cancel()
		if err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	f.t.Fatalf("%s: %v", what, err)
}
