package storage

import (
	"context"

	"github.com/taskengine/taskengine/engine/task"
)

// Exporter is implemented by stores that can be read as a whole, to copy or to check them.
type Exporter interface {
	// Export calls setting for each of the [Settings], in the order of their names, and then
	// row for each row, whole, in the order of Seq: all as they were at one moment, however
	// long it takes and whatever others change meanwhile. Names, values and rows belong to
	// the callee, which must not use the store. Export ends with the first error that one of
	// them returns, and returns it as it is. It may need memory or disk that grows with the
	// number of rows, but not memory that grows with their payloads.
	Export(ctx context.Context, setting func(name string, value []byte) error, row func(*task.Task) error) error
}
