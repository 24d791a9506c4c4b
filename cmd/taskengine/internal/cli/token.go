package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/access"
)

// tokensFlags name the file of tokens: by itself, or by a configuration.
type tokensFlags struct {
	file   string
	config configFlags
}

func (f *tokensFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "file", "", "the file of the tokens; without it, that of api.tokens in the configuration")
	f.config.add(cmd, "the configuration file; without it, ./taskengine.yaml")
}

// addFor adds the flags to a command about the tokens of the cluster unless they name a file.
func (f *tokensFlags) addFor(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "file", "", "a file of tokens; the default is the tokens of the cluster")
	f.config.add(cmd, "a configuration with that file in api.tokens")
}

// roleFlags are the flags of the rights of a new token.
type roleFlags struct {
	roles, types []string
	expires      duration
}

func (f *roleFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.roles, "role", nil, "the rights of the token: view, submit, work, manage, operate, reveal or admin; may be given more than once")
	cmd.Flags().StringSliceVar(&f.types, "type", nil, "the types of tasks that it is for, such as mail or mail-*; may be given more than once (by default all)")
	cmd.Flags().Var(&f.expires, "expires", "how long it is valid, such as 30d (by default without end)")
	if err := cmd.MarkFlagRequired("role"); err != nil {
		panic(err) // there is such a flag
	}
}

const rolesHelp = `Roles:
  view     see tasks without their content, types, limits and schedules
  submit   as view with content, and add tasks
  work     run tasks as a worker
  manage   as view, and change tasks, keys, types, limits, schedules and alerts
  operate  as submit and manage
  reveal   beside another role: see redacted values
  admin    everything`

// isGiven reports whether the command line names a file: otherwise the command is about the tokens of the cluster.
func (f *tokensFlags) isGiven() bool { return f.file != "" || f.config.file != "" }

// path returns the path of the file.
func (f *tokensFlags) path(a *app) (string, error) {
	if f.file != "" {
		return f.file, nil
	}
	if err := f.config.find(); err != nil {
		return "", err
	}
	cfg, err := f.config.load(a)
	if err != nil {
		return "", err
	}
	if cfg.API.Tokens == "" {
		return "", exit.Errorf(exit.Usage, "the configuration has no api.tokens; add it, or name the file of the tokens by --file")
	}
	return cfg.API.Tokens, nil
}

// tokenJSON is a token of a file in JSON, described in docs/cli.md.
type tokenJSON struct {
	Name    string        `json:"name"`
	Roles   []access.Role `json:"roles"`
	Types   []string      `json:"types"`
	Created time.Time     `json:"created"`
	Expires time.Time     `json:"expires,omitzero"`
	Token   string        `json:"token,omitempty"` // of token create
}

func tokenToJSON(t access.Token, text string) tokenJSON {
	return tokenJSON{Name: t.Name, Roles: t.Roles, Types: append([]string{}, t.Types...), Created: t.Created, Expires: t.Expires, Token: text}
}
