package kv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// keyLogBytes has how many bytes all logs have together. It is not there if they have none.
var keyLogBytes = []byte{prefixMeta, 'l', 'o', 'g', 's'}

const (
	logKeySize    = 1 + 16 + 8
	logHeadSize   = 8 + 8 // of a value: the mark, and how many bytes the log had with this piece, as if none had been removed
	logTimeLength = 1 + 8 + 16
)

func appendLogKey(b []byte, id task.ID, at int64) []byte {
	return appendTime(appendIDKey(b, prefixLog, id), at)
}

func appendLogTimeKey(b []byte, at int64, id task.ID) []byte {
	return append(appendTime(append(b, prefixLogTime), at), id[:]...)
}

// loggedPiece is a piece without its data.
type loggedPiece struct {
	task        task.ID
	at          int64
	mark, total uint64
	size        int64
}

// pieceAt returns the piece at a cursor, and its data, which is valid until the cursor moves.
func pieceAt(c Cursor) (p loggedPiece, data []byte, err error) {
	key := c.Key()
	value, err := c.Value()
	if err != nil {
		return p, nil, err
	}
	if len(key) != logKeySize || len(value) < logHeadSize {
		return p, nil, fmt.Errorf("%s: %w", NameOf(key), ErrDamaged)
	}
	data = value[logHeadSize:]
	return loggedPiece{
		task: task.ID(key[1:17]), at: timeAt(key[17:]), size: int64(len(data)),
		mark: binary.BigEndian.Uint64(value), total: binary.BigEndian.Uint64(value[8:]),
	}, data, nil
}

// eachPiece calls fn with each piece in a range of keys until fn returns false.
func eachPiece(r Reader, lower, upper []byte, fn func(p loggedPiece, data []byte) bool) (err error) {
	c, err := r.ScanCommitted(lower, upper)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for ok := c.First(); ok; ok = c.Next() {
		p, data, err := pieceAt(c)
		if err != nil {
			return err
		}
		if !fn(p, data) {
			break
		}
	}
	return nil
}

// rangeOfLog returns the range of the keys of the log of a task behind a time.
func rangeOfLog(id task.ID, after int64) (lower, upper []byte) {
	return append(appendLogKey(nil, id, after), 0), append(appendIDKey(nil, prefixLog, id), bytes.Repeat([]byte{0xff}, 9)...)
}

// newestPiece returns the newest piece of the log of a task, or a zero one.
func newestPiece(r Reader, id task.ID) (p loggedPiece, err error) {
	c, err := r.ScanCommitted(rangeOfLog(id, 0))
	if err != nil {
		return p, err
	}
	if c.Last() {
		p, _, err = pieceAt(c)
	}
	return p, errors.Join(err, c.Close())
}

// logWriter changes logs in a transaction that does nothing else.
type logWriter struct {
	*Tx
	puts  []loggedPiece
	datas [][]byte
	gone  []loggedPiece
	bytes int64 // of all logs
}

// changeLogs reads by read, which notes what is to be changed, and then writes that.
func (tx *Tx) changeLogs(ctx context.Context, verb string, read func(w *logWriter) error) error {
	return tx.do(ctx, verb, func() error {
		n, _, err := getNumber(tx.rw, keyLogBytes)
		if err != nil {
			return err
		}
		w := &logWriter{Tx: tx, bytes: int64(n)}
		if err := read(w); err != nil {
			return err
		}
		return w.write()
	})
}

// write writes what was noted.
func (w *logWriter) write() error {
	if len(w.puts)+len(w.gone) == 0 {
		return nil
	}
	w.wrote = true
	for _, p := range w.gone {
		w.bytes -= p.size
		if err := errors.Join(w.rw.Delete(appendLogKey(nil, p.task, p.at)), w.rw.Delete(appendLogTimeKey(nil, p.at, p.task))); err != nil {
			return err
		}
	}
	for i, p := range w.puts {
		w.bytes += p.size
		head := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, logHeadSize+len(w.datas[i])), p.mark), p.total)
		err := errors.Join(w.rw.Put(appendLogKey(nil, p.task, p.at), append(head, w.datas[i]...)),
			w.rw.Put(appendLogTimeKey(nil, p.at, p.task), appendNumber(nil, uint64(p.size))))
		if err != nil {
			return err
		}
	}
	if w.bytes == 0 {
		return w.rw.Delete(keyLogBytes)
	}
	return w.rw.Put(keyLogBytes, appendNumber(nil, uint64(w.bytes)))
}

// remove notes that the pieces of the log of a task are removed that begin before a place in it, see loggedPiece.total.
func (w *logWriter) remove(id task.ID, before uint64) error {
	lower, upper := rangeOfLog(id, 0)
	return eachPiece(w.rw, lower, upper, func(p loggedPiece, _ []byte) bool {
		if p.total-uint64(p.size) >= before {
			return false
		}
		w.gone = append(w.gone, p)
		return true
	})
}

// AppendLogs implements the contract of [storage.LogKeeper] in a transaction that does nothing else.
func (tx *Tx) AppendLogs(ctx context.Context, most int64, pieces []storage.LogPiece) error {
	return tx.changeLogs(ctx, "append to logs", func(w *logWriter) error {
		if err := storage.CheckLogPieces(pieces); err != nil {
			return err
		}
		for _, p := range pieces {
			last, err := newestPiece(w.rw, p.Task)
			if err != nil {
				return err
			}
			if last.mark == p.Mark {
				continue
			}
			size := int64(len(p.Data))
			w.puts = append(w.puts, loggedPiece{task: p.Task, at: max(p.At, last.at+1), mark: p.Mark, size: size, total: last.total + uint64(size)})
			w.datas = append(w.datas, p.Data)
			if total := last.total + uint64(size); last.mark != 0 && total > uint64(most) {
				if err := w.remove(p.Task, total-uint64(most)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// RemoveLogs is likewise.
func (tx *Tx) RemoveLogs(ctx context.Context, ids []task.ID) error {
	return tx.changeLogs(ctx, "remove logs", func(w *logWriter) error {
		seen := make(map[task.ID]bool, len(ids))
		for _, id := range ids {
			if seen[id] {
				continue
			}
			seen[id] = true
			if err := w.remove(id, 1<<63); err != nil {
				return err
			}
		}
		return nil
	})
}

// TrimLogs is likewise.
func (tx *Tx) TrimLogs(ctx context.Context, most int64, limit int) (left int64, err error) {
	err = tx.changeLogs(ctx, "trim logs", func(w *logWriter) (err error) {
		if left = w.bytes; left <= most {
			return nil
		}
		c, err := w.rw.ScanCommitted([]byte{prefixLogTime}, []byte{prefixLogTime + 1})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		for ok := c.First(); ok && left > most && len(w.gone) < limit; ok = c.Next() {
			p, err := pieceOfTime(c)
			if err != nil {
				return err
			}
			w.gone, left = append(w.gone, p), left-p.size
		}
		return nil
	})
	return left, err
}

// pieceOfTime returns the task, time and size of the piece of an entry of the index of times.
func pieceOfTime(c Cursor) (p loggedPiece, err error) {
	key := c.Key()
	value, err := c.Value()
	if err != nil {
		return p, err
	}
	d := decoder{rest: value}
	p.size = int64(d.uvarint())
	if len(key) != logTimeLength || d.bad || len(d.rest) > 0 {
		return p, fmt.Errorf("%s: %w", NameOf(key), ErrDamaged)
	}
	p.at, p.task = timeAt(key[1:]), task.ID(key[9:])
	return p, nil
}

// ReadLog implements the contract of [storage.LogKeeper].
func (v *View) ReadLog(ctx context.Context, id task.ID, after int64, size int) (pieces []storage.LogPiece, more bool, err error) {
	sum := 0
	lower, upper := rangeOfLog(id, after)
	if err = ctx.Err(); err == nil {
		err = eachPiece(v.r, lower, upper, func(p loggedPiece, data []byte) bool {
			if sum += len(data); sum > size && len(pieces) > 0 {
				more = true
				return false
			}
			pieces = append(pieces, storage.LogPiece{Task: id, At: p.at, Mark: p.mark, Data: bytes.Clone(data)})
			return true
		})
	}
	if err != nil {
		return nil, false, v.db.fail("read a log", err)
	}
	return pieces, more, nil
}

// LoggedTasks is likewise.
func (v *View) LoggedTasks(ctx context.Context, after task.ID, limit int) (ids []task.ID, err error) {
	c, err := v.r.ScanCommitted([]byte{prefixLog}, []byte{prefixLog + 1})
	if err != nil {
		return nil, v.db.fail("look for logs", err)
	}
	seek := func(id task.ID) bool {
		return c.Seek(append(appendIDKey(nil, prefixLog, id), bytes.Repeat([]byte{0xff}, 9)...))
	}
	for ok := seek(after); ok && len(ids) < limit && err == nil; {
		if key := c.Key(); len(key) != logKeySize {
			err = fmt.Errorf("%s: %w", NameOf(key), ErrDamaged)
		} else if err = ctx.Err(); err == nil {
			ids = append(ids, task.ID(key[1:17]))
			ok = seek(ids[len(ids)-1])
		}
	}
	if err = errors.Join(err, c.Close()); err != nil {
		return nil, v.db.fail("look for logs", err)
	}
	return ids, nil
}
