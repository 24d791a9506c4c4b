package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
)

// askerOf returns the asker of an argument of a command, by its name in the usage; nil if the node does not know the values.
func askerOf(c *cobra.Command, word string) asker {
	if !c.HasParent() {
		return nil
	}
	group, verb := c.Parent().Name(), c.Name()
	switch word = strings.TrimSuffix(word, "..."); group + " " + word {
	case "task ID":
		return askTasks(nil, statesFor(verb))
	case "workflow ID":
		return askTasks([]string{workflow.Type}, nil)
	case "task TYPE", "type TYPE":
		return askTypes
	case "limit LIMIT":
		return askLimits
	case "schedule NAME":
		return askSchedules
	case "source NAME", "source SOURCE":
		return askSources
	case "bulk NAME":
		return askJobs
	case "node NODE":
		return askNodes
	case "worker WORKER":
		return askWorkers
	case "key KEY":
		return askOrderingKeys
	case "document KEY":
		return askDocuments
	case "alert ID":
		return askSilences
	case "alert RULE":
		return askRules
	case "token NAME":
		if verb == "revoke" || verb == "rotate" {
			return askTokens
		}
	}
	return nil
}

// askerOfFlag is askerOf for the value of a flag.
func askerOfFlag(c *cobra.Command, flag string) asker {
	group := ""
	if c.HasParent() {
		group = c.Parent().Name()
	}
	switch {
	case flag == "type" && group != "handler":
		return askTypes
	case flag == "key" && group == "task" && c.Name() != "add":
		return askKeys
	case flag == "key" && group == "workflow" && c.Name() == "show":
		return askKeys
	case flag == "ordering-key", flag == "after" && group == "key":
		return askOrderingKeys
	case flag == "after" && group == "task":
		return askTasks(nil, nil)
	case flag == "after" && group == "schedule":
		return askSchedules
	case flag == "after" && group == "document":
		return askDocuments
	}
	return nil
}

// statesFor returns the states of the tasks that a verb takes; nil for all.
func statesFor(verb string) []string {
	switch verb {
	case "cancel", "fail":
		return []string{"waiting", "submitted", "processing", "error"}
	case "resume":
		return []string{"waiting", "error", "failed", "cancelled"}
	case "set", "reschedule":
		return []string{"waiting", "submitted", "error"}
	case "delete":
		return []string{"done", "failed", "cancelled"}
	case "erase":
		return []string{"done", "failed", "cancelled", "error"}
	}
	return nil
}

func stateNames() (all []string) {
	for _, s := range task.States() {
		all = append(all, s.String())
	}
	return all
}

// askTasks offers the ids of the newest tasks of some types, in some states.
func askTasks(types, states []string) asker {
	return func(ctx context.Context, c *client, begun string) (all []offer) {
		for _, t := range newestTasks(ctx, c, types, states, begun) {
			if begun == "" && task.IsReservedType(t.GetType()) {
				continue // schedules and the like, which people look at by other commands
			}
			all = append(all, offer{t.GetId(), strings.TrimSpace(fmt.Sprintf("%s %s %s", t.GetState(), t.GetType(), t.GetKey()))})
		}
		return all
	}
}

// newestTasks returns the newest tasks with ids that begin with some text.
func newestTasks(ctx context.Context, c *client, types, states []string, begun string) []*taskenginev1.Task {
	req := &taskenginev1.ListRequest{Types: types, States: states, Limit: completionMost}
	if isBeginning(begun) {
		req.PageToken = afterAll(strings.ToLower(begun))
	}
	res, err := call(ctx, c, c.List, req)
	if err != nil {
		return nil
	}
	return res.GetTasks()
}

// askKeys offers the keys of the newest tasks.
func askKeys(ctx context.Context, c *client, _ string) (all []offer) {
	for _, t := range newestTasks(ctx, c, nil, nil, "") {
		all = append(all, offer{t.GetKey(), t.GetType()})
	}
	return all
}

// askTypes offers types, but reserved ones only if their prefix was begun.
func askTypes(ctx context.Context, c *client, begun string) (all []offer) {
	res, err := call(ctx, c, c.ListTypes, &taskenginev1.ListTypesRequest{})
	if err != nil {
		return nil
	}
	for _, t := range res.GetTypes() {
		if !strings.HasPrefix(begun, task.ReservedTypes[:1]) && strings.HasPrefix(t.GetName(), task.ReservedTypes) {
			continue
		}
		about := ""
		if t.GetPaused() {
			about = "paused"
		}
		all = append(all, offer{t.GetName(), about})
	}
	return all
}

func askLimits(ctx context.Context, c *client, _ string) (all []offer) {
	res, err := call(ctx, c, c.ListLimits, &taskenginev1.ListLimitsRequest{})
	if err != nil {
		return nil
	}
	for _, l := range res.GetLimits() {
		about := "max " + orNone(maxWords(l.GetMax())) + ", rate " + orNone(rateWords(l.GetRate()))
		if l.GetPaused() {
			about += ", paused"
		}
		all = append(all, offer{limitID(l), about})
	}
	return all
}

func askSchedules(ctx context.Context, c *client, begun string) (all []offer) {
	res, err := call(ctx, c, c.ListSchedules, &taskenginev1.ListSchedulesRequest{Prefix: begun, Limit: completionMost})
	if err != nil {
		return nil
	}
	for _, s := range res.GetSchedules() {
		all = append(all, offer{s.GetName(), whenWords(s.GetDefinition())})
	}
	return all
}

// askSources offers the names of sources, and after a slash those of platforms.
func askSources(ctx context.Context, c *client, begun string) (all []offer) {
	if source, platform, ok := strings.Cut(begun, "/"); ok {
		res, err := call(ctx, c, c.ListPlatforms, &taskenginev1.ListPlatformsRequest{Source: source, Prefix: platform, Limit: completionMost})
		if err != nil {
			return nil
		}
		for _, p := range res.GetPlatforms() {
			all = append(all, offer{value: source + "/" + p.GetName()})
		}
		return all
	}
	if res, err := call(ctx, c, c.ListSources, &taskenginev1.ListSourcesRequest{}); err == nil {
		for _, s := range res.GetSources() {
			all = append(all, offer{value: s.GetName()})
		}
	}
	if res, err := call(ctx, c, c.ListSliceSources, &taskenginev1.ListSliceSourcesRequest{}); err == nil {
		for _, s := range res.GetSources() {
			all = append(all, offer{value: s.GetName()}, offer{value: s.GetName() + "/"})
		}
	}
	return all
}

func askJobs(ctx context.Context, c *client, _ string) (all []offer) {
	res, err := call(ctx, c, c.ListBulkJobs, &taskenginev1.ListBulkJobsRequest{Limit: completionMost})
	if err != nil {
		return nil
	}
	for _, j := range res.GetJobs() {
		all = append(all, offer{j.GetName(), j.GetPhase() + ", " + j.GetVerb() + " " + j.GetWhere()})
	}
	return all
}

func askNodes(ctx context.Context, c *client, _ string) (all []offer) {
	res, err := call(ctx, c, c.ListNodes, &taskenginev1.ListNodesRequest{})
	if err != nil {
		return nil
	}
	for _, n := range res.GetNodes() {
		all = append(all, offer{n.GetName(), nodeState(n)})
	}
	return all
}

func askWorkers(ctx context.Context, c *client, _ string) (all []offer) {
	res, err := call(ctx, c, c.ListWorkers, &taskenginev1.ListWorkersRequest{})
	if err != nil {
		return nil
	}
	for _, w := range res.GetWorkers() {
		all = append(all, offer{w.GetId(), strings.TrimSpace(w.GetState() + " " + w.GetName())}, offer{w.GetName(), w.GetState()})
	}
	return all
}

// askOrderingKeys offers keys from begun on: the node lists them in their order.
func askOrderingKeys(ctx context.Context, c *client, begun string) (all []offer) {
	res, err := call(ctx, c, c.ListKeys, &taskenginev1.ListKeysRequest{PageToken: begun, Limit: completionMost})
	if err != nil {
		return nil
	}
	for _, k := range res.GetKeys() {
		all = append(all, offer{k.GetKey(), "the head is " + k.GetHead().GetState()})
	}
	return all
}

func askDocuments(ctx context.Context, c *client, begun string) (all []offer) {
	res, err := call(ctx, c, c.ListDocuments, &taskenginev1.ListDocumentsRequest{Prefix: begun, Limit: completionMost})
	if err != nil {
		return nil
	}
	for _, d := range res.GetDocuments() {
		all = append(all, offer{value: d.GetKey()})
	}
	return all
}

func askSilences(ctx context.Context, c *client, _ string) (all []offer) {
	res, err := call(ctx, c, c.ListAlerts, &taskenginev1.ListAlertsRequest{})
	if err != nil {
		return nil
	}
	for _, s := range res.GetSilences() {
		all = append(all, offer{s.GetId(), strings.TrimSpace(s.GetRule() + " " + labelWords(s.GetLabels()))})
	}
	return all
}

// askRules offers the rules of alerts that fire.
func askRules(ctx context.Context, c *client, _ string) (all []offer) {
	res, err := call(ctx, c, c.ListAlerts, &taskenginev1.ListAlertsRequest{})
	if err != nil {
		return nil
	}
	for _, one := range res.GetAlerts() {
		all = append(all, offer{value: one.GetRule()})
	}
	return all
}

func askTokens(ctx context.Context, c *client, _ string) (all []offer) {
	res, err := call(ctx, c, c.ListTokens, &taskenginev1.ListTokensRequest{})
	if err != nil {
		return nil
	}
	for _, t := range res.GetTokens() {
		all = append(all, offer{t.GetName(), strings.Join(t.GetRoles(), ",")})
	}
	return all
}
