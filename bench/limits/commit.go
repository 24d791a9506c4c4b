package limits

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/bbolt"

	store "github.com/taskengine/taskengine/storage/pebble"
)

const (
	recordSize = 256
	// committers is the number of goroutines that commit to pebble, where they share syncs.
	// bolt commits one transaction after the other and needs one.
	committers = 8
)

func commitProbes() []probe {
	var all []probe
	for _, db := range []struct {
		name    string
		measure func(context.Context, *trial, int) error
	}{{"pebble", measurePebble}, {"bolt", measureBolt}} {
		for _, size := range []int{1, 16, 256} {
			name := fmt.Sprintf("group-commit/%s/%d", db.name, size)
			all = append(all, probe{
				limits:  []Limit{{name, PerSecond, fmt.Sprintf("records of %d bytes, %d to a synced commit, bare %s", recordSize, size, db.name)}},
				share:   1,
				measure: func(ctx context.Context, t *trial) error { return db.measure(ctx, t, size) },
			})
		}
	}
	return all
}

// commits measures the records per second that n goroutines commit, size to a commit.
func (t *trial) commits(ctx context.Context, n, size int, commit func(records [][]byte) error) error {
	var last atomic.Uint64
	value := make([]byte, recordSize)
	return t.repeat(ctx, func(end time.Time) ([]float64, error) {
		rate, err := together(ctx, n, end, func(int) (int, error) {
			records := make([][]byte, size)
			first := last.Add(uint64(size))
			for i := range records {
				records[i] = binary.BigEndian.AppendUint64(nil, first+uint64(i))
				records[i] = append(records[i], value...)
			}
			return size, commit(records)
		})
		return []float64{rate}, err
	})
}

// keySize is the size of the key of a record. Keys ascend, like task ids.
const keySize = 8

// reserve is the disk space that is reserved for closing pebble when the disk is full: a commit that
// fails would never release its locks.
const reserve = 8 << 20

func measurePebble(ctx context.Context, t *trial, size int) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	fs, err := withReserve(filepath.Join(t.dir, "reserve"), stop)
	if err != nil {
		return err
	}
	db, err := pebble.Open(filepath.Join(t.dir, "pebble"), &pebble.Options{
		FS: fs, FormatMajorVersion: pebble.FormatNewest, MemTableSize: store.DefaultMemTableSize, Logger: quiet{},
	})
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = errors.Join(err, db.Close())
	}()
	return t.commits(ctx, committers, size, func(records [][]byte) (err error) {
		defer func() {
			if r := recover(); r != nil { // the library panics when the disk fails
				err = fmt.Errorf("the library panicked: %v", r)
			}
		}()
		b := db.NewBatch()
		for _, r := range records {
			if err := b.Set(r[:keySize], r[keySize:], nil); err != nil {
				return errors.Join(err, b.Close())
			}
		}
		if err := b.Commit(pebble.Sync); err != nil {
			return err
		}
		return b.Close()
	})
}

// withReserve returns the file system of the machine. When the disk is full, it removes the reserve, a
// file made before, and calls stop. The failed write is then repeated.
func withReserve(path string, stop context.CancelCauseFunc) (vfs.FS, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(make([]byte, reserve))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	return vfs.OnDiskFull(vfs.Default, func() {
		_ = os.Remove(path) // if it fails, so does the write
		stop(syscall.ENOSPC)
	}), nil
}

// quiet prevents that the library writes to standard error.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}

// Fatalf must not return.
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func measureBolt(ctx context.Context, t *trial, size int) (err error) {
	db, err := bbolt.Open(filepath.Join(t.dir, "bolt"), 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	bucket := []byte("records")
	create := func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	}
	if err := db.Update(create); err != nil {
		return err
	}
	return t.commits(ctx, 1, size, func(records [][]byte) error {
		return db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucket)
			b.FillPercent = 1 // keys ascend
			for _, r := range records {
				if err := b.Put(r[:keySize], r[keySize:]); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
