package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// Ids of tasks are in the order of time, so that a store finds an id by its beginning as fast as by the whole, and by its end only
// if it reads all tasks. So a short id is a beginning.
const (
	idLength    = 36
	leastID     = 13 // characters of a beginning: the millisecond in which the task was added
	mostSimilar = 3  // ids that an error names
)

// shortIDs are the lengths of short ids. The first one is enough for tasks that one program has added: it has the time to a 4096th
// of a millisecond. Children of one task may have the same one.
var shortIDs = [...]int{18, 23, idLength}

// shorten replaces ids of tasks by beginnings that tell them apart. All of them have the same length.
func shorten(ids []string) {
	for _, length := range shortIDs {
		whole := make(map[string]string) // ids by their beginnings
		isClear := true
		for _, id := range ids {
			short := id[:min(len(id), length)]
			if other, ok := whole[short]; ok && other != id {
				isClear = false
			}
			whole[short] = id
		}
		if !isClear {
			continue
		}
		for i, id := range ids {
			if len(id) == idLength && isBeginning(id) {
				ids[i] = id[:length]
			}
		}
		return
	}
}

// isBeginning reports whether text is an id of a task, or the beginning of one.
func isBeginning(text string) bool {
	if text == "" || len(text) > idLength {
		return false
	}
	for i, r := range text {
		isHyphen := i == 8 || i == 13 || i == 18 || i == 23
		if isHyphen != (r == '-') || !isHyphen && !strings.ContainsRune("0123456789abcdefABCDEF", r) {
			return false
		}
	}
	return true
}

// taskID returns the id of the task that an argument names: by its id, or by a beginning that no other task has.
func (c *client) taskID(ctx context.Context, arg string) (string, error) {
	if len(arg) == idLength || !isBeginning(arg) {
		return arg, nil // the node says what is wrong with it
	}
	if len(arg) < leastID {
		return "", exit.Errorf(exit.Usage, "%s is too short for an id of a task: give it whole, or its first %d characters or more", arg, leastID)
	}
	found, err := c.idsFrom(ctx, strings.ToLower(arg), nil, mostSimilar+1)
	others := ""
	if exit.Code(err) == exit.NotAllowed { // the token is for some types only
		others = ", or is of a type that the token is not for"
		found, err = c.idsOfOwnTypes(ctx, strings.ToLower(arg), err)
	}
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", exit.Errorf(exit.NotFound, "no task has an id that begins with %s: it was never added, or has ended and is not kept any more%s", arg, others)
	case len(found) > 1:
		ids := make([]string, 0, len(found))
		for _, t := range found {
			ids = append(ids, t.GetId())
		}
		return "", exit.Errorf(exit.Usage, "the ids of several tasks begin with %s: give more of %s", arg, ofSeveral(ids))
	}
	return found[0].GetId(), nil
}

// ofSeveral names some ids.
func ofSeveral(ids []string) string {
	if len(ids) > mostSimilar {
		return strings.Join(ids[:mostSimilar], ", ") + " or others"
	}
	return strings.Join(ids, " or ")
}

// taskIDs is taskID for each of several arguments.
func (c *client) taskIDs(ctx context.Context, args []string) ([]string, error) {
	ids := slices.Clone(args)
	for i, arg := range args {
		var err error
		if ids[i], err = c.taskID(ctx, arg); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// idsOfOwnTypes is idsFrom for a token that is not for all types: among the tasks of its types, which are the only ones that it
// sees. refused is why it cannot list all tasks.
func (c *client) idsOfOwnTypes(ctx context.Context, beginning string, refused error) ([]*taskenginev1.Task, error) {
	res, err := call(ctx, c, c.ListTypes, &taskenginev1.ListTypesRequest{})
	if err != nil || len(res.GetTypes()) == 0 {
		return nil, refused
	}
	if n := len(res.GetTypes()); res.GetMore() || n > server.MaxFilter {
		return nil, exit.Errorf(exit.NotAllowed, "%s is short for an id of a task, and the token is for too many types to look for it: give the whole id (%w)", beginning, refused)
	}
	var types []string
	for _, t := range res.GetTypes() {
		types = append(types, t.GetName())
	}
	return c.idsFrom(ctx, beginning, types, mostSimilar+1)
}

// idsFrom returns the newest tasks with an id that begins with some text, of some types or, without types, of all; at most so many.
// The node lists tasks that are older than the first id after all of these: it reads one page, and no other tasks if types has none.
func (c *client) idsFrom(ctx context.Context, beginning string, types []string, most int) (found []*taskenginev1.Task, err error) {
	req := &taskenginev1.ListRequest{Limit: uint32(most), PageToken: afterAll(beginning), Types: types}
	for {
		res, err := call(ctx, c, c.List, req)
		if err != nil {
			return nil, err
		}
		for _, t := range res.GetTasks() {
			if strings.HasPrefix(t.GetId(), beginning) && len(found) < most {
				found = append(found, t)
			}
		}
		if req.PageToken = res.GetNextPageToken(); len(found) == most || req.PageToken < beginning { // also "", at the end
			return found, nil
		}
	}
}

// afterAll returns the least id that is greater than all ids with a beginning; "" if there is none.
func afterAll(beginning string) string {
	const last = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	id, err := task.ParseID(beginning + last[len(beginning):])
	if err != nil {
		return ""
	}
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			return id.String()
		}
	}
	return ""
}
