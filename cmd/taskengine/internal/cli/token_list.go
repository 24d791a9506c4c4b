package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTokenList(a *app) *cobra.Command {
	var flags tokensFlags
	var revoked bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens of clients",
		Long: `List the tokens of the cluster and of the node's file or, with --file or --config, the tokens of a
file.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.isGiven() {
				return a.listFile(&flags)
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListTokens, &taskenginev1.ListTokensRequest{Revoked: revoked})
				if err != nil {
					return err
				}
				return a.showTokens(res.GetTokens())
			})
		},
	}
	flags.addFor(cmd)
	cmd.Flags().BoolVar(&revoked, "revoked", false, "also the tokens that were revoked or expired in the last 30 days")
	return cmd
}

// listFile writes the tokens of a file.
func (a *app) listFile(flags *tokensFlags) error {
	path, err := flags.path(a)
	if err != nil {
		return err
	}
	tokens, err := access.Read(path)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, t := range tokens.List() {
		if a.json() {
			if err := a.printJSON(tokenToJSON(t, "")); err != nil {
				return err
			}
			continue
		}
		roles := make([]string, len(t.Roles))
		for i, r := range t.Roles {
			roles[i] = string(r)
		}
		expires := ""
		if !t.Expires.IsZero() {
			expires = t.Expires.Format(time.RFC3339)
		}
		rows = append(rows, []string{t.Name, strings.Join(roles, ","), strings.Join(t.Types, ","), t.Created.Format(time.RFC3339), expires})
	}
	if a.json() {
		return nil
	}
	return a.printTable([]string{"NAME", "ROLES", "TYPES", "CREATED", "EXPIRES"}, rows, "EXPIRES")
}

// showTokens writes tokens of a node as rows, or each as a line of JSON.
func (a *app) showTokens(all []*taskenginev1.Token) error {
	if a.json() {
		return printMessages(a, all)
	}
	now := time.Now()
	rows := make([][]string, len(all))
	for i, t := range all {
		by, earlier, revoked := t.GetBy(), "", ""
		if t.GetInFile() {
			by = "file"
		}
		if t.GetEarlierUntil() != nil {
			earlier = "until " + when(t.GetEarlierUntil())
		}
		if t.GetRevokedAt() != nil {
			revoked = a.moment(t.GetRevokedAt(), now) + " by " + t.GetRevokedBy()
		}
		rows[i] = []string{
			t.GetName(), t.GetState(), strings.Join(t.GetRoles(), ","), strings.Join(t.GetTypes(), ","), a.moment(t.GetCreatedAt(), now), by,
			a.moment(t.GetExpiresAt(), now), a.moment(t.GetRotatedAt(), now), earlier, revoked,
		}
	}
	return a.printTable([]string{"NAME", "STATE", "ROLES", "TYPES", "CREATED", "BY", "EXPIRES", "ROTATED", "EARLIER SECRET", "REVOKED"}, rows,
		"TYPES", "EXPIRES", "ROTATED", "EARLIER SECRET", "REVOKED")
}
