package handlers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/handlers/internal/answer"
	"github.com/taskengine/taskengine/task"
)

// answered returns the end of an attempt with a command that ended by itself and has written a document, which is empty if it has
// not. Only a command that exits with 0 has done its work. With another exit code only an error in the document counts.
func (e *Exec) answered(ctx context.Context, t *task.Task, begun time.Time, x *execution, document head) ([]byte, error) {
	result, err := e.result(x)
	if len(document.kept) == 0 && !document.over || x.exit.State == nil || !x.exit.State.Exited() || isSignal(x.exit.State.ExitCode()) {
		return result, err
	}
	from := fmt.Sprintf("%s: %s", x.cmd.Args[0], x.state())
	a, refused := e.read(t, begun, document)
	switch code := x.exit.State.ExitCode(); {
	case code == 0 && refused != nil:
		return nil, refuseAnswer(ctx, from, document.kept, refused)
	case code == 0 && (a.HasResult() || a.Failed("") != nil):
		return a.End(nil)
	case code == 0 && err != nil: // it printed too much
		return nil, err
	case code == 0:
		return a.End(result)
	case refused == nil && a.Failed("") != nil:
		if err = a.Failed(exitClass(code)); isFinal(code) {
			err = task.Permanent(err)
		}
		return nil, err
	case refused == nil:
		refused = errors.New("with an exit code other than 0 only an error counts")
	}
	logRefused(ctx, from, document.kept, refused)
	return nil, err
}

// read reads the document of a command.
func (e *Exec) read(t *task.Task, begun time.Time, document head) (*answer.Answer, error) {
	if document.over {
		return nil, fmt.Errorf("it has more than %d bytes; write less or raise max_answer", e.config.MaxAnswer)
	}
	return answer.Parse(document.kept, answer.NowIn(t, begun), answer.Rules{MayAdd: e.config.MayAdd, MaySignal: e.config.MaySignal, MayWrite: e.config.MayWrite})
}
