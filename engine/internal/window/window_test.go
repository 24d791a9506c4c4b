package window

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// place is a position in the tests. A row is named by its place.
type place int

func (p place) Compare(q place) int { return cmp.Compare(p, q) }

// row is a row at one version.
type row struct {
	at      place
	version int
}

// mistake is a way to use a window, or to write one, that loses rows.
type mistake string

const (
	none            mistake = ""
	olderReplaces   mistake = "a notice replaces a newer version in memory"
	readBeforeAsk   mistake = "a page was read before it was asked for"
	pageNotCut      mistake = "a page is not cut at a row that was refused meanwhile"
	cutAtLastGap    mistake = "a page is cut at the last row that was refused, not at the first"
	completeTooSoon mistake = "the window is complete though a row was refused meanwhile"
	shrunkMeanwhile mistake = "a page is taken in though the window shrank while it was read"
	resetMeanwhile  mistake = "a page is taken in though the window was reset while it was read"
	shrunkByPage    mistake = "a page is taken in further after the window shrank"
)

// world is a store, the part of it in memory, and the rows on their way between the two. It checks by
// looking at everything.
type world struct {
	rng      *rand.Rand
	mistake  mistake
	capacity int

	store    map[place]int // the version of each row
	versions map[place]int // the highest version that the row ever had
	earlier  map[place]int // the store as it was some steps ago
	notices  []row         // on their way
	memory   map[place]int
	taken    []row // taken from memory, and not yet removed from the store

	window  Window[place]
	isAsked bool
	after   place // where the page begins
	isRead  bool
	page    []row
	end     bool
}

const places = 14

func newWorld(seed uint64, m mistake) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 5)), mistake: m}
	w.capacity = 2 + w.rng.IntN(5)
	w.store, w.versions, w.memory = map[place]int{}, map[place]int{}, map[place]int{}
	for range w.rng.IntN(places) {
		w.change() // there before the window was
	}
	w.notices = nil
	w.earlier = maps.Clone(w.store)
	w.window.Reset()
	return w
}

// change inserts, changes or removes a row of the store.
func (w *world) change() {
	at := place(1 + w.rng.IntN(places))
	if _, is := w.store[at]; is && w.rng.IntN(2) == 0 {
		delete(w.store, at)
		return
	}
	w.versions[at]++
	w.store[at] = w.versions[at]
	w.notices = append(w.notices, row{at, w.versions[at]})
}

// notice delivers one of the notices.
func (w *world) notice() {
	if len(w.notices) == 0 {
		return
	}
	i := w.rng.IntN(len(w.notices))
	r := w.notices[i]
	w.notices = slices.Delete(w.notices, i, i+1)
	if w.window.Admit(r.at) {
		w.put(r)
	} else if w.mistake == cutAtLastGap {
		w.window.gap = max(w.window.gap, r.at)
	}
}

// put puts a row into memory and keeps memory within its capacity. Now and then, memory is needed
// for other things.
func (w *world) put(r row) {
	if w.memory[r.at] < r.version || w.mistake == olderReplaces {
		w.memory[r.at] = r.version
	}
	if len(w.memory) > w.capacity || w.rng.IntN(8) == 0 {
		w.shrink()
	}
}

func (w *world) shrink() {
	if len(w.memory) < 2 {
		return
	}
	sorted := w.sorted()
	delete(w.memory, sorted[len(sorted)-1])
	follows := w.window.follows
	w.window.Shrink(sorted[len(sorted)-2])
	if w.isAsked && w.mistake == shrunkMeanwhile || !w.isAsked && w.mistake == shrunkByPage {
		w.window.follows = follows
	}
}

func (w *world) reset() {
	clear(w.memory)
	follows := w.window.follows
	w.window.Reset()
	if w.mistake == resetMeanwhile {
		w.window.follows = follows
	}
}

// sorted returns the places in memory.
func (w *world) sorted() []place { return slices.Sorted(maps.Keys(w.memory)) }

func (w *world) ask() {
	if w.window.Complete() || w.window.Asked() || len(w.memory) > w.capacity/2 {
		return
	}
	w.isAsked, w.isRead, w.after = true, false, w.window.Ask()
	if w.mistake == readBeforeAsk {
		w.read(w.earlier)
	}
}

// read reads the page that was asked for.
func (w *world) read(store map[place]int) {
	if !w.isAsked || w.isRead {
		return
	}
	w.isRead, w.page, w.end = true, nil, true
	limit := 1 + w.rng.IntN(w.capacity)
	for _, at := range slices.Sorted(maps.Keys(store)) {
		if at <= w.after {
			continue
		}
		if len(w.page) == limit {
			w.end = false
			return
		}
		w.page = append(w.page, row{at, store[at]})
	}
}

func (w *world) answer() {
	if !w.isRead {
		return
	}
	w.isAsked, w.isRead = false, false
	if w.rng.IntN(8) == 0 { // the read has failed
		w.window.Answer(false)
		return
	}
	if w.mistake == pageNotCut {
		w.window.missed = w.window.missed && w.end && w.window.gap <= w.after // never
	}
	w.window.Answer(w.end)
	if w.mistake == completeTooSoon && w.end && w.window.follows {
		w.window.more = false
	}
	for _, r := range w.page {
		if !w.window.Extend(r.at) {
			break
		}
		w.put(r)
	}
}

// take takes the first row from memory. The store hears of it later.
func (w *world) take() (row, bool) {
	sorted := w.sorted()
	if len(sorted) == 0 {
		return row{}, false
	}
	r := row{sorted[0], w.memory[sorted[0]]}
	delete(w.memory, r.at)
	w.taken = append(w.taken, r)
	return r, true
}

// commit removes the rows from the store that were taken, if they are at the same version still.
func (w *world) commit() {
	for _, r := range w.taken {
		if w.store[r.at] == r.version {
			delete(w.store, r.at)
		}
	}
	w.taken = nil
}

func (w *world) step() {
	switch w.rng.IntN(16) {
	case 0, 1, 2:
		w.change()
	case 3, 4, 5:
		w.notice()
	case 6, 7:
		w.ask()
	case 8, 9:
		w.read(w.store)
	case 10, 11:
		w.answer()
	case 12:
		w.take()
	case 13:
		w.commit()
	case 14:
		if w.rng.IntN(3) == 0 {
			w.shrink()
		} else if w.rng.IntN(8) == 0 {
			w.reset()
		}
	default:
		w.earlier = maps.Clone(w.store)
	}
}

// check holds the world to invariants 1 and 2 of the package, and to its capacity.
func (w *world) check() error {
	for at, version := range w.store {
		r := row{at, version}
		if w.window.Covers(at) && w.memory[at] != version && !slices.Contains(w.taken, r) && !slices.Contains(w.notices, r) {
			return fmt.Errorf("row %+v is lost: memory %v, window %+v", r, w.memory, w.window)
		}
	}
	for at := range w.memory {
		if !w.window.Covers(at) {
			return fmt.Errorf("row %d is in memory, and behind the window %+v", at, w.window)
		}
	}
	if len(w.memory) > w.capacity {
		return fmt.Errorf("%d rows are in memory, of %d", len(w.memory), w.capacity)
	}
	return nil
}

// drain lets all notices arrive, and takes all rows. They must come in their order, and none may be
// left.
func (w *world) drain() error {
	for len(w.notices) > 0 {
		w.notice()
	}
	for range 100 {
		w.ask()
		w.read(w.store)
		w.answer()
		for {
			w.commit()
			r, ok := w.take()
			if !ok {
				break
			}
			if version, is := w.store[r.at]; is && version == r.version && r.at != slices.Min(slices.Collect(maps.Keys(w.store))) {
				return fmt.Errorf("row %d is taken before row %d", r.at, slices.Min(slices.Collect(maps.Keys(w.store))))
			}
		}
		if err := w.check(); err != nil {
			return err
		}
	}
	if len(w.store) > 0 {
		return fmt.Errorf("rows %v are never taken: window %+v", w.store, w.window)
	}
	return nil
}

func drive(seed uint64, m mistake) error {
	w := newWorld(seed, m)
	for range 300 {
		w.step()
		if err := w.check(); err != nil {
			return err
		}
	}
	return w.drain()
}

const seeds = 2000

func TestAWindowLosesNoRowAndKeepsTheOrder(t *testing.T) {
	for seed := range uint64(seeds) {
		if err := drive(seed, none); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// The test above is worth something only if it finds the mistakes that were made.
func TestTheRandomWorldsFindEachMistake(t *testing.T) {
	for _, m := range []mistake{
		olderReplaces, readBeforeAsk, pageNotCut, cutAtLastGap, completeTooSoon, shrunkMeanwhile, resetMeanwhile, shrunkByPage,
	} {
		t.Run(string(m), func(t *testing.T) {
			for seed := range uint64(seeds) {
				if err := drive(seed, m); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("it is not found")
		})
	}
}
