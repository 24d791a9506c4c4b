package storagetest

import (
	"errors"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// partCases are about transactions of one of several databases.
var partCases = []testCase{
	{"a transaction of one database is done wholly or not at all", func(f *fixture) {
		s, p := f.Store.(storage.PartUpdater), f.Store.(storage.Divided)
		errNo := errors.New("no")
		for _, outcome := range []error{errNo, nil} {
			for database := range p.Databases() {
				rows, hooks := f.inDatabase(database, 2), 0
				err := s.UpdateIn(f.ctx(), database, func(tx storage.Tx) error {
					tx.OnCommit(func() { hooks++ })
					shards := tx.(storage.ShardBound).Shards()
					equal(f, "it says which shards it has", shards.Has(rows[0].ID.Shard()), true)
					done, err := tx.Insert(f.ctx(), rows...)
					equal(f, "inserted", done, make([]storage.Inserted, 2))
					return errors.Join(err, outcome)
				})
				equal(f, "the error is that of the function", errors.Is(err, errNo), outcome != nil)
				equal(f, "hooks that ran", hooks == 1, outcome == nil)
				for _, t := range rows {
					equal(f, "the row exists", f.exists(t.ID), outcome == nil)
				}
			}
		}
	}},
	{"a row is deleted and added again in one transaction, if it is at its version", func(f *fixture) {
		s := f.Store.(storage.PartUpdater)
		for database := range f.Store.(storage.Divided).Databases() {
			t := f.inDatabase(database, 1)[0]
			t.State, t.Version = task.Done, 5
			f.put(t)
			for _, version := range []uint64{4, 5} {
				next := t.Clone()
				next.Version = 9
				err := s.UpdateIn(f.ctx(), database, func(tx storage.Tx) error {
					gone, err := tx.Delete(f.ctx(), task.Ref{ID: t.ID, Version: version})
					if err != nil {
						return err
					}
					equal(f, "deleted", gone[0], version == 5)
					done, err := tx.Insert(f.ctx(), next)
					if err == nil {
						equal(f, "added", done[0].Created(), version == 5)
					}
					return err
				})
				if err != nil {
					f.Fatal(err)
				}
			}
			equal(f, "the version", f.get(t.ID).Version, uint64(9))
		}
	}},
	{"a transaction of one database does nothing if it needs a row of another", func(f *fixture) {
		s, p := f.Store.(storage.PartUpdater), f.Store.(storage.Divided)
		for database := range p.Databases() {
			here, there := f.inDatabase(database, 1)[0], f.row(task.Submitted)
			for p.Databases() > 1 && p.DatabaseOf(there.ID.Shard()) == database {
				there = f.row(task.Submitted)
			}
			err := s.UpdateIn(f.ctx(), database, func(tx storage.Tx) error {
				if _, err := tx.Insert(f.ctx(), here); err != nil {
					return err
				}
				_, _ = tx.Insert(f.ctx(), there)
				return nil // the transaction fails though
			})
			equal(f, "it fails", errors.Is(err, storage.ErrElsewhere), p.Databases() > 1)
			equal(f, "the row is there", f.exists(here.ID), p.Databases() == 1)
		}
		err := s.UpdateIn(f.ctx(), p.Databases(), func(storage.Tx) error { f.Error("it was called"); return nil })
		equal(f, "without a database", errors.Is(err, storage.ErrUnavailable), true)
	}},
}

// inDatabase returns rows of shards that a database has.
func (f *fixture) inDatabase(database, n int) (rows []*task.Task) {
	for len(rows) < n {
		if t := f.row(task.Submitted); f.Store.(storage.Divided).DatabaseOf(t.ID.Shard()) == database {
			rows = append(rows, t)
		}
	}
	return rows
}
