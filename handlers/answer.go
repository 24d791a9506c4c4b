package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/taskengine/taskengine/handlers/internal/answer"
	"github.com/taskengine/taskengine/task"
)

// AnswerType is the content type of a response with the document that says how the attempt ends.
const AnswerType = answer.ContentType

// EnvelopeType is the content type of a request with the document that describes the attempt.
const EnvelopeType = answer.EnvelopeType

// loggedAnswer is how many bytes of a document that was refused are in the log of the task.
const loggedAnswer = 4 << 10

// refuseAnswer returns the error of an attempt with a document that was refused, which goes to the log of the task. from says who
// wrote it and how that ended.
func refuseAnswer(ctx context.Context, from string, document []byte, why error) error {
	logRefused(ctx, from, document, why)
	return task.Permanent(task.WithClass(answer.RefusedClass, fmt.Errorf("%s: its answer is refused, and the work was done: %w", from, why)))
}

// logRefused writes a document that does not count to the log of the task.
func logRefused(ctx context.Context, from string, document []byte, why error) {
	shown := strings.ToValidUTF8(string(document[:min(len(document), loggedAnswer)]), "\uFFFD")
	task.Logger(ctx).LogAttrs(ctx, slog.LevelError, "the answer was refused", slog.String("from", from), slog.String("reason", why.Error()),
		slog.Int("bytes", len(document)), slog.String("answer", shown))
}

// wakeFacts are the names of the facts that wokenBy returns, in their order.
var wakeFacts = []string{"woken_by", "signal_name", "signal_id", "signal_at"}

// wokenBy returns the facts about the end of the newest wait of t that are short enough for an environment and for headers.
func wokenBy(t *task.Task) map[string]string {
	wake := t.Woken()
	facts := map[string]string{"woken_by": wake.By.String()}
	if s := &wake.Signal; wake.By == task.BySignal {
		facts["signal_name"], facts["signal_id"], facts["signal_at"] = s.Name, s.ID.String(), s.At.UTC().Format(time.RFC3339Nano)
	}
	return facts
}
