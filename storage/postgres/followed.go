package postgres

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// The statements by which attempts end do not know which tasks run after theirs. A batch is tried in one round trip as any other. If
// one of its tasks is followed, the statement fails, nothing of the batch was done, and it is done once more in a transaction. There the
// statements leave such rows as they are, and these are locked, read and changed by [task.Change.Apply], as others are.

// codeFollowed is that of the error of the function is_followed.
const codeFollowed = "TE005"

// isFollowed reports whether nothing was done because a task that was to end is followed.
func isFollowed(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == codeFollowed
}

// retryEnds has the ends that were not made be made as other changes: their tasks may be followed.
func (w *swaps) retryEnds() {
	for _, some := range [][]int{w.ends, w.exits} {
		for _, i := range some {
			if w.rows[i] == nil && finished(w.changes[i].To) {
				w.others = append(w.others, i)
			}
		}
	}
	slices.SortStableFunc(w.others, func(a, b int) int { return w.changes[a].ID.Compare(w.changes[b].ID) })
}
