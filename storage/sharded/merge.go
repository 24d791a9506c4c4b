package sharded

import (
	"cmp"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// merge returns the rows of the pages of all databases, in one order. If several pages have a row, since
// its shard was moved between the queries, it returns the newest version.
func merge[T any](known *routes, pages [][]T, ref func(*T) task.Ref, compare func(a, b T) int) []T {
	if len(pages) == 1 {
		return pages[0]
	}
	all := slices.Concat(pages...)
	if strays(known, pages, ref) {
		newest := make(map[task.ID]uint64, len(all))
		for i := range all {
			r := ref(&all[i])
			newest[r.ID] = max(newest[r.ID], r.Version)
		}
		all = slices.DeleteFunc(all, func(row T) bool {
			r := ref(&row)
			version, wanted := newest[r.ID]
			if !wanted || version != r.Version {
				return true
			}
			delete(newest, r.ID)
			return false
		})
	}
	slices.SortFunc(all, compare)
	return all
}

// strays reports whether a row comes from a database that is not known to hold its shard. Only then can
// there be a row twice.
func strays[T any](known *routes, pages [][]T, ref func(*T) task.Ref) bool {
	for database, page := range pages {
		for i := range page {
			if known.of(ref(&page[i]).ID.Shard()) != database {
				return true
			}
		}
	}
	return false
}

// first returns the first rows, at most limit.
func first[T any](rows []T, limit int) []T { return rows[:min(len(rows), max(0, limit))] }

func refOfTrigger(t *task.Trigger) task.Ref { return t.Ref }

func refOfHint(h *task.Hint) task.Ref { return h.Ref }

func refOfDue(d *storage.Due) task.Ref { return d.Ref }

func refOfTask(t **task.Task) task.Ref { return (*t).Ref() }

func compareRank(a, b task.Trigger) int { return a.Rank.Compare(b.Rank) }

func cursorOf(h task.Hint) storage.Cursor { return storage.Cursor{Queue: h.Queue, Rank: h.Rank} }

func compareCursor(a, b storage.Cursor) int {
	return cmp.Or(compareQueue(a.Queue, b.Queue), a.Rank.Compare(b.Rank))
}

func compareHint(a, b task.Hint) int { return compareCursor(cursorOf(a), cursorOf(b)) }

func compareDue(a, b storage.Due) int { return cmp.Or(a.At.Compare(b.At), a.ID.Compare(b.ID)) }

func compareQueue(a, b task.Queue) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Group, b.Group))
}

func compareID(a, b *task.Task) int { return a.ID.Compare(b.ID) }
