package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

const (
	completionPatience = 2 * time.Second // a shell waits for it
	completionMost     = 100             // platforms that are offered
)

// completeSource completes the name of a source or of a platform, SOURCE/PLATFORM, as the first argument of a command. Without a node
// there is nothing to offer.
func (a *app) completeSource(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	c, err := a.dial()
	if len(args) > 0 || err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	var names []string
	if source, platform, ok := strings.Cut(begun, "/"); ok {
		res, err := call(ctx, c, c.ListPlatforms, &taskenginev1.ListPlatformsRequest{Source: source, Prefix: platform, Limit: completionMost})
		if err == nil {
			for _, p := range res.GetPlatforms() {
				names = append(names, source+"/"+p.GetName())
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	if res, err := call(ctx, c, c.ListSources, &taskenginev1.ListSourcesRequest{}); err == nil {
		for _, s := range res.GetSources() {
			names = append(names, s.GetName())
		}
	}
	if res, err := call(ctx, c, c.ListSliceSources, &taskenginev1.ListSliceSourcesRequest{}); err == nil {
		for _, s := range res.GetSources() {
			names = append(names, s.GetName(), s.GetName()+"/")
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, begun) })
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
