package cli

import "github.com/spf13/cobra"

func newLimitResume(a *app) *cobra.Command {
	return newLimitEdit(a, "resume LIMIT", "Start tasks again that count for a limit",
		"Start tasks again that count for a limit, or for one of its values. Its max and its rate stay\nas they are set.", setPaused(false))
}
