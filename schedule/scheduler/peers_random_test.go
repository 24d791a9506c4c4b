package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/storage/memory"
)

// settings are the settings of a coordinator that loses requests and answers, is away, and goes back in time. They are safe for
// concurrent use.
type settings struct {
	mu       sync.Mutex
	rng      *rand.Rand
	version  uint64
	values   map[string]coord.Setting
	watches  map[chan struct{}]bool
	isAway   bool
	isFaulty bool
}

func newSettings(seed uint64) *settings {
	return &settings{rng: rand.New(rand.NewPCG(seed, 7)), values: map[string]coord.Setting{}, watches: map[chan struct{}]bool{}}
}

var errAway = errors.New("the coordinator is away")

func (s *settings) Settings(_ context.Context, name string) ([]coord.Setting, error) {
	if name != "schedules" {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isAway {
		return nil, errAway
	}
	return slices.Collect(maps.Values(s.values)), nil
}

func (s *settings) Swap(_ context.Context, _, scope string, version uint64, value []byte) (coord.Setting, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isAway || s.isFaulty && s.rng.IntN(10) == 0 {
		return coord.Setting{}, false, errAway
	}
	if now := s.values[scope]; now.Version != version {
		return now.Clone(), false, nil
	}
	s.version++
	s.values[scope] = coord.Setting{Scope: scope, Value: slices.Clone(value), Version: s.version}
	s.wake()
	if s.isFaulty && s.rng.IntN(5) == 0 {
		return coord.Setting{}, false, errors.New("the answer was lost")
	}
	return s.values[scope].Clone(), true, nil
}

// wake is called with mu held.
func (s *settings) wake() {
	for w := range s.watches {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

func (s *settings) Watch(ctx context.Context, name string, fn func([]coord.Setting)) error {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	s.mu.Lock()
	s.watches[changed] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, changed)
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			if all, err := s.Settings(ctx, name); err == nil {
				fn(all)
			}
		}
	}
}

func (s *settings) keep() map[string]coord.Setting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.values)
}

// goBack replaces the settings. Later changes have other versions than the lost ones.
func (s *settings) goBack(to map[string]coord.Setting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = maps.Clone(to)
	s.wake()
}

func (s *settings) set(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	s.wake()
}

// TestRandomLivesOfASharedScheduleFireEachTimeOnce ends and starts nodes at random, some by a crash between a claim and its
// commit, while the coordinator loses answers, is away and goes back in time. Each time of the schedule has one task in the end.
func TestRandomLivesOfASharedScheduleFireEachTimeOnce(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { live(t, seed) })
		})
	}
}

func live(t *testing.T, seed uint64) {
	rng, noted, link := rand.New(rand.NewPCG(seed, 1)), new(book), local.New()
	shared := newSettings(seed)
	every := schedule.Definition{
		Every: time.Minute, Overlap: schedule.Allow, Task: schedule.Template{Type: "report"}, CatchUp: schedule.CatchUp{Policy: schedule.All, Max: 1000},
	}
	stores := []*memory.Store{memory.New(), memory.New(), memory.New()}
	nodes := make([]*peer, len(stores))
	begin := func(i int) {
		nodes[i] = openPeerAt(t, fmt.Sprint("n", i), link.Peer(), shared, stores[i], noted)
	}
	for i := range nodes {
		begin(i)
	}
	for {
		if _, err := nodes[0].Apply(t.Context(), "minutely", every); err == nil {
			break
		}
	}
	start := time.Now()
	shared.set(func() { shared.isFaulty = true })
	was := shared.keep()
	for range 30 {
		time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Minute))))
		i := rng.IntN(len(nodes))
		switch rng.IntN(6) {
		case 0, 1:
			if nodes[i] != nil {
				nodes[i].kill(t)
				nodes[i] = nil
			}
		case 2, 3:
			if nodes[i] == nil {
				begin(i)
			}
		case 4:
			shared.set(func() { shared.isAway = !shared.isAway })
		case 5:
			if isAll := !slices.Contains(nodes, nil); isAll { // a node that is down may be the only one that knows the newest state
				shared.goBack(was)
				time.Sleep(30 * time.Second)
			}
			was = shared.keep()
		}
	}
	shared.set(func() { shared.isAway, shared.isFaulty = false, false })
	for i := range nodes {
		if nodes[i] == nil {
			begin(i)
		}
	}
	time.Sleep(5 * time.Minute)
	var got, want []string
	for line := range strings.SplitSeq(noted.take(), ", ") {
		at, _, _ := strings.Cut(line, "@")
		got = append(got, at)
	}
	slices.Sort(got)
	for at := start.Truncate(time.Minute).Add(time.Minute); !at.After(time.Now()); at = at.Add(time.Minute) {
		want = append(want, at.UTC().Format(time.RFC3339))
	}
	if !slices.Equal(got, want) {
		t.Errorf("it has fired at\n%v, not at\n%v", got, want)
	}
	for _, n := range nodes {
		n.end()
	}
}
