package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// A batch with documents is tried in one round trip as any other, with a statement that fails if a document has another version than its
// write replaces. Then nothing of it was done, and it is done once more in a transaction that reads the documents before it changes the
// tasks, see [storage.Do].

const writeDocuments = `select {schema}.put_documents($1::uuid[], $2::bigint[], $3::uuid[], $4::smallint[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[], $10::bigint[], $11::integer[])`

const codeConflict = "TE005"

// isConflicting reports whether a batch failed because of writeDocuments.
func isConflicting(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == codeConflict
}

// documentsAtOnce reports whether the documents of a batch can be written in one statement: each is written once.
func documentsAtOnce(b *storage.Batch) bool {
	if len(b.Documents) == 0 {
		return true
	}
	seen := make(map[task.ID]bool)
	for i := range b.Documents {
		for k := range b.Documents[i] {
			id := b.Documents[i][k].Row.ID
			if seen[id] || b.Swap[i].To == task.Processing {
				return false
			}
			seen[id] = true
		}
	}
	return true
}

// writesWithEnds reports whether documents are written with changes that end tasks.
func writesWithEnds(b *storage.Batch) bool {
	for i := range b.Documents {
		if len(b.Documents[i]) > 0 && finished(b.Swap[i].To) {
			return true
		}
	}
	return false
}

// documentAfter is a write of a document with the change that it follows.
type documentAfter struct {
	*task.DocumentChange
	after task.Ref // the row before the change
	end   ending
}

// document queues the statement that writes the documents of a batch, behind the changes.
func (v *verbs) document(ctx context.Context, p *pipe, b *storage.Batch) {
	var all []documentAfter
	for i := range b.Documents {
		for k := range b.Documents[i] {
			c := &b.Documents[i][k]
			all = append(all, documentAfter{c, b.Swap[i].Ref, v.store.partitions.endingOf(c.Row.ID, c.Row.UpdatedAt, c.Row.NextEventAt)})
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b documentAfter) int { return a.Row.ID.Compare(b.Row.ID) })
	ends := make([]ending, len(all))
	for i := range all {
		ends[i] = all[i].end
	}
	v.makeRoom(ctx, p, ends)
	_, at, _ := columns(ends)
	indexes := make([]int, len(all))
	for i := range indexes {
		indexes[i] = i
	}
	p.add(nil, v.store.sql.documents,
		uuids(all, func(d documentAfter) task.ID { return d.after.ID }), bigints(all, func(d documentAfter) int64 { return int64(d.after.Version) + 1 }),
		uuids(all, func(d documentAfter) task.ID { return d.Row.ID }), smallints(all, func(d documentAfter) int16 { return int16(d.Row.Shard) }),
		texts(all, func(d documentAfter) string { return d.Row.Key }),
		bigintsOrNull(all, func(d documentAfter) (int64, bool) {
			if d.Replaces == nil {
				return 0, false
			}
			return int64(*d.Replaces), true
		}),
		bigints(all, func(d documentAfter) int64 { return micro(d.Row.UpdatedAt) }), bigints(all, func(d documentAfter) int64 { return micro(d.Row.NextEventAt) }),
		bytesOrNull(all, func(d documentAfter) []byte { return d.Row.Payload }), at,
		integers(indexes, func(i int) int32 {
			if all[i].Delete {
				return -1
			}
			return ends[i].class.Number()
		}))
}
