// Package window keeps track of which part of an ordered set of rows in a store is also in memory.
//
// The store holds all rows. Memory holds a window of them: the rows from the first one up to a
// bound. The window grows at its end, by pages that are read from the store, and shrinks at its end
// when memory is scarce. Three things happen concurrently: rows change, notices of those changes
// arrive late and in any order, and a page is read. No row may be lost between them.
//
// # Model
//
// A row has a position, which does not change while the row is in the set, and a version. Every
// change of a row makes a version that is higher. When a row enters the set or changes within it, a
// notice is sent after the store has the change. A notice may be delayed, and notices may overtake
// each other, but each one arrives. It is given to [Window.Admit], and if that returns true, the
// owner of the window puts the row into memory. The owner takes rows out of memory when it uses
// them. (A hint of another node may be lost. It is no notice in this sense: the engine polls the
// store for the rows of lost hints and gives a notice of each row that it finds.)
//
// The owner has four duties:
//
//   - It keeps, of two versions of the row at one position, the newer. A notice may be older than
//     the rows in memory.
//   - When it removes a row from memory without using it, the row is the last one, and it calls
//     [Window.Shrink]. It may also remove all rows and call [Window.Reset].
//   - It reads at most one page at a time. The page is read after [Window.Ask] and before
//     [Window.Answer]. It holds the rows that follow the position that Ask returned, in order and
//     without holes, as the store had them at one moment. It may be merged from several reads, if
//     each row has one of them that would see it: the moment T below is then that of the read of r.
//   - When it could not use a row that it has taken, it gives a notice of the row again.
//
// A row in memory that the store has changed or removed meanwhile does no harm: the owner uses a
// row by a compare-and-swap on its version.
//
// # Invariants
//
// A position is covered if the window is complete, or if the position is not after the bound.
//
//  1. Every row of the store at a covered position is in memory at its version, or was taken from
//     memory at that version, or its notice has not arrived yet.
//  2. No row in memory is at a position that is not covered.
//  3. While a page is asked for: every notice that was not admitted since Ask is of a position at
//     or after gap.
//  4. While a page is asked for, and follows is true: the bound is where it was at Ask.
//
// By 1, a row that is dropped is not lost: its position is not covered, so it is read when the
// bound moves on. By 1 and 2, the first row in memory is the first row of the store as far as
// notices have arrived.
//
// # Proof
//
// Admit: if the position is covered, the owner puts the row into memory, or memory has a version
// that is newer; 1 holds either way. If not, the notice has arrived without effect. Invariant 1
// says nothing about positions that are not covered. The gap moves to the position if that is
// before it, so 3 holds.
//
// Shrink and Reset: fewer positions are covered, so 1 holds for the remaining ones. The owner has
// removed the rows behind the new bound, so 2 holds. Shrink removes the last row, which was
// covered, so the bound moves strictly down. A page that is on its way starts at the old bound: it
// lacks the rows between the two. Therefore follows becomes false, and the page is discarded. A
// Reset of a window that is at its start changes nothing, so the page is kept.
//
// Ask: no notice has been refused since, so 3 holds for any gap. The bound has not moved since, so
// 4 holds.
//
// Answer and Extend: the page was read at a moment T, after Ask. If follows is false, Extend
// refuses every row and nothing changes. Otherwise the page starts at the bound, by 4. Let Extend
// accept the position p, which moves the bound there. Let r be a row that the store has now, behind
// the old bound and not after p. If the store had r at this version at T, then r is in the page,
// and the owner has put it into memory. Otherwise r changed after T, and its notice was sent after
// T, which is after Ask. If the notice has not arrived, 1 holds. If it has, then it was refused,
// because r was not covered, and the gap is not after r, by 3. But Extend accepts only positions
// before the gap, so p is before r: a contradiction. So 1 holds.
//
// If end is set and no notice was refused, the window becomes complete. The argument is the same
// with every position instead of those up to p: the page had all rows at T, and every notice since
// then was admitted or has not arrived.
//
// When Extend refuses a position, or the owner has to shrink the window, the rest of the page is
// left to the store. The bound is at the last row that was put into memory, so no row of the page
// is skipped.
package window

// Position is a place in the order of the rows. The zero value is before every row.
type Position[P any] interface {
	comparable
	Compare(other P) int
}

// Window says up to where the rows of a store are in memory. The rows themselves are kept by the
// owner of the window. See the package comment for the owner's duties.
//
// The zero Window is complete: the store has no row that is not in memory.
type Window[P Position[P]] struct {
	bound   P    // up to where memory is complete; meaningful if more is set
	gap     P    // the first position of a refused notice; meaningful if missed is set
	more    bool // the store may have rows behind bound
	asked   bool // a page is on its way
	follows bool // the page on its way, or being taken in, begins at bound
	missed  bool // a notice was refused since the page was asked for
}

// Reset sets the window to its start: nothing is in memory, and the store may have rows. A page
// that is on its way is discarded, unless the window was at its start already.
func (w *Window[P]) Reset() {
	var start P
	if w.more && w.bound == start {
		return
	}
	w.more, w.bound, w.follows = true, start, false
}

// Complete reports whether the store has no row that is not in memory.
func (w *Window[P]) Complete() bool { return !w.more }

// Started reports whether the first rows of the store are in memory: the window is complete, or has
// a bound.
func (w *Window[P]) Started() bool {
	var start P
	return !w.more || w.bound != start
}

// Asked reports whether a page is on its way.
func (w *Window[P]) Asked() bool { return w.asked }

// Covers reports whether a row at p has its place in memory. If not, it is in the store only, and
// is read later.
func (w *Window[P]) Covers(p P) bool { return !w.more || p.Compare(w.bound) <= 0 }

// Admit decides about a notice of the row at p. If it returns true, the owner puts the row into
// memory. If it returns false, the row is left to the store.
func (w *Window[P]) Admit(p P) bool {
	if w.Covers(p) {
		return true
	}
	if !w.missed || p.Compare(w.gap) < 0 {
		w.missed, w.gap = true, p
	}
	return false
}

// Shrink reports that the owner has removed the last rows from memory. last is the position of the
// last remaining row. A page that is on its way, or is being taken in, is discarded from here on.
func (w *Window[P]) Shrink(last P) { w.more, w.bound, w.follows = true, last, false }

// Ask returns the position behind which the next page is to be read. The page is read after this
// call. No page may be on its way, and the window must not be complete. Each Ask is followed by one
// Answer.
func (w *Window[P]) Ask() (after P) {
	w.asked, w.follows, w.missed = true, true, false
	return w.bound
}

// Answer reports that the page has arrived. Its rows come next, each by Extend. end says that the
// store had no rows behind the page. A read that failed is an answer without rows and without end.
func (w *Window[P]) Answer(end bool) {
	w.asked = false
	if end && w.follows && !w.missed {
		w.more = false
	}
}

// Extend moves the bound to p, the position of the next row of the page. If it returns true, the
// owner puts the row into memory. If it returns false, this row and those behind it are left to the
// store.
func (w *Window[P]) Extend(p P) bool {
	if !w.follows || w.missed && p.Compare(w.gap) >= 0 {
		return false
	}
	if w.more {
		w.bound = p
	}
	return true
}
