package calls

import (
	"errors"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

var errNoReader = errors.New("the host of this task reads no documents")

// Read answers a read of a run that reports to r.
func Read(r task.Reporter, k *wire.ReadDocument, rights *Rights) *wire.DocumentRead {
	answer := &wire.DocumentRead{RunId: k.GetRunId(), Number: k.GetNumber()}
	d, err := read(r, k.GetKey(), rights)
	if err != nil {
		answer.Error = cut(err.Error(), wire.MaxErrorBytes)
		return answer
	}
	answer.Version, answer.Data = d.Version, d.Data
	answer.ExpiresAt, answer.CreatedAt, answer.UpdatedAt = microsOf(d.ExpiresAt), microsOf(d.CreatedAt), microsOf(d.UpdatedAt)
	return answer
}

func read(r task.Reporter, key string, rights *Rights) (task.Document, error) {
	if err := rights.checkRead(key); err != nil {
		return task.Document{}, err
	}
	if reader, ok := r.(task.DocumentReader); ok {
		return reader.ReadDocument(key)
	}
	return task.Document{}, errNoReader
}

// writesOf returns the writes of documents of a finish.
func writesOf(f *wire.Finish) []task.DocumentWrite {
	writes := make([]task.DocumentWrite, len(f.GetDocuments()))
	for i, d := range f.GetDocuments() {
		writes[i] = task.DocumentWrite{Key: d.GetKey(), Data: d.GetData(), Delete: d.GetDelete(), Replaces: d.Replaces}
		if d.GetExpiresAt() != 0 {
			writes[i].ExpiresAt = time.UnixMicro(d.GetExpiresAt()).UTC()
		}
	}
	return writes
}

// microsOf returns a time in microseconds; 0 if it is zero.
func microsOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
