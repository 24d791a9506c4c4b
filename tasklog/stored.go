package tasklog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// StoreEvery is how long a line waits at most until it is written to a store that answers.
	StoreEvery = 500 * time.Millisecond

	// DefaultTaskBytes is how many bytes of lines a store keeps of a task, if [StoreOptions] do not say.
	DefaultTaskBytes = 4 << 20

	// storeBytes is how many bytes of lines one call of the store has.
	storeBytes = 512 << 10
	// pageBytes is how many bytes a reader reads at once.
	pageBytes = 1 << 20

	// storeTimeout is how long a call of the store may take, and storePatience how long lines are kept that it does not take.
	storeTimeout  = 10 * time.Second
	storePatience = 30 * time.Second
	// closeTimeout is how long a call may take while the log is closed.
	closeTimeout = 3 * time.Second
)

// StoreOptions configure [InStore].
type StoreOptions struct {
	Node      string      // the name of this node, which lines have
	TaskBytes int64       // of the lines of one task, as stored; 0 is DefaultTaskBytes
	Codec     codec.Codec // encodes lines; nil leaves them as they are
}

// Stored is the logs of tasks in a store. Its methods may be called from any goroutine, but for append.
type Stored struct {
	keeper storage.LogKeeper
	o      StoreOptions
}

// InStore returns the logs that a store has.
func InStore(keeper storage.LogKeeper, o StoreOptions) *Stored {
	if o.TaskBytes == 0 {
		o.TaskBytes = DefaultTaskBytes
	}
	return &Stored{keeper, o}
}

// Has reports whether a task has a log.
func (s *Stored) Has(ctx context.Context, id task.ID) (bool, error) {
	some, _, err := s.keeper.ReadLog(ctx, id, 0, 1)
	return len(some) > 0, err
}

// Reader returns a reader of the log of a task that begins at a cursor.
func (s *Stored) Reader(id task.ID, at Cursor) *Reader { return &Reader{store: s, id: id, at: at} }

// append writes lines, and tries again for some time, or until closing is closed. It returns the lines that were not written, and the error. Only the
// writer calls it.
func (s *Stored) append(lines []byte, patience time.Duration, closing <-chan struct{}) (rest []byte, err error) {
	begun := time.Now()
	for len(lines) > 0 {
		n := len(lines)
		if n > storeBytes {
			n = bytes.LastIndexByte(lines[:storeBytes], '\n') + 1
		}
		pieces, err := s.pieces(lines[:n])
		if err != nil {
			return lines, err
		}
		for {
			if err = s.call(pieces, closing); err == nil {
				break
			}
			if time.Since(begun) >= patience || isClosed(closing) {
				return lines, err
			}
			select {
			case <-time.After(StoreEvery):
			case <-closing:
			}
		}
		lines = lines[n:]
	}
	return nil, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// call passes pieces to the store.
func (s *Stored) call(pieces []storage.LogPiece, closing <-chan struct{}) error {
	timeout := storeTimeout
	if isClosed(closing) {
		timeout = closeTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.keeper.AppendLogs(ctx, s.o.TaskBytes, pieces...)
}

// A piece is a line with a header and the lines of one task, without the beginning of each line that names the task.
type header struct {
	Node string `json:"node"`
}

// shortBegin begins a line in a piece, in place of linePrefix, the id, and the rest of that member.
const shortBegin = '{'

// pieces returns the pieces of lines: one for each task.
func (s *Stored) pieces(lines []byte) ([]storage.LogPiece, error) {
	begin, err := json.Marshal(header{s.o.Node})
	if err != nil {
		return nil, err
	}
	begin = append(begin, '\n')
	at, places := time.Now().UnixMicro(), make(map[task.ID]int)
	var all []storage.LogPiece
	for line := range bytes.Lines(lines) {
		id, ok := lineID(line)
		if !ok {
			continue
		}
		i, known := places[id]
		if !known {
			i = len(all)
			places[id] = i
			all = append(all, storage.LogPiece{Task: id, At: at, Mark: rand.Uint64() | 1, Data: bytes.Clone(begin)})
		}
		rest := line[len(linePrefix)+idLength+len(`",`):]
		all[i].Data = append(append(all[i].Data, shortBegin), rest...)
	}
	if s.o.Codec == nil {
		return all, nil
	}
	for i := range all {
		if all[i].Data, err = s.o.Codec.Encode(contentOf(all[i].Task), all[i].Data); err != nil {
			return nil, fmt.Errorf("encode lines of the task log: %w", err)
		}
	}
	return all, nil
}

// contentOf describes a piece of the log of a task to a codec.
func contentOf(id task.ID) codec.Content {
	return codec.Content{Type: id.String(), Kind: codec.Log, Max: 2 * storeBytes}
}

// stored is Lines for a log in a store.
func (r *Reader) stored(ctx context.Context) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		if r.log != nil {
			if err := r.log.Flush(ctx); err != nil {
				yield(Line{}, err)
				return
			}
		}
		for more := true; more; {
			after := r.at.segment
			if r.at.offset > 0 { // the rest of that piece
				after--
			}
			pieces, rest, err := r.store.keeper.ReadLog(ctx, r.id, after, pageBytes)
			if err != nil {
				yield(Line{}, fmt.Errorf("read the log of a task: %w", err))
				return
			}
			for i := range pieces {
				if !r.piece(&pieces[i], yield) {
					return
				}
			}
			more = rest
		}
	}
}

// piece yields the lines of a piece that were not read. It reports whether to read on.
func (r *Reader) piece(p *storage.LogPiece, yield func(Line, error) bool) bool {
	from := int64(0)
	if p.At == r.at.segment {
		from = r.at.offset
	}
	data, err := r.store.decoded(p)
	if err != nil {
		r.at = Cursor{segment: p.At}
		text := fmt.Sprintf("lines of this time cannot be read: %v", err)
		return yield(Line{Time: time.UnixMicro(p.At).UTC(), Level: slog.LevelWarn, Message: text}, nil)
	}
	begin, _, _ := bytes.Cut(data, []byte("\n"))
	var of header
	_ = json.Unmarshal(begin, &of) // the name is for display
	end := int64(len(begin) + 1)
	for line := range bytes.Lines(data[min(end, int64(len(data))):]) {
		if end += int64(len(line)); end <= from {
			continue
		}
		l, err := decode(line)
		if err != nil {
			continue
		}
		l.Node = of.Node
		r.at = Cursor{p.At, end}
		if end >= int64(len(data)) {
			r.at.offset = 0
		}
		if !yield(l, nil) {
			return false
		}
	}
	r.at = Cursor{segment: p.At}
	return true
}

// decoded returns the lines of a piece.
func (s *Stored) decoded(p *storage.LogPiece) ([]byte, error) {
	if s.o.Codec == nil {
		return p.Data, nil
	}
	return s.o.Codec.Decode(contentOf(p.Task), p.Data)
}
