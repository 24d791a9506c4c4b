package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/access"
)

// tokensFlags name the file of tokens: itself, or by a configuration.
type tokensFlags struct {
	file   string
	config configFlags
}

func (f *tokensFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "file", "", "the file of the tokens; without it, that of api.tokens in the configuration")
	f.config.add(cmd, "the configuration file; without it, ./taskengine.yaml")
}

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

// tokenJSON is a token in JSON, described in docs/cli.md.
type tokenJSON struct {
	Name    string        `json:"name"`
	Roles   []access.Role `json:"roles"`
	Types   []string      `json:"types"`
	Created time.Time     `json:"created"`
	Token   string        `json:"token,omitempty"` // of token create
}

func tokenToJSON(t access.Token, text string) tokenJSON {
	return tokenJSON{Name: t.Name, Roles: t.Roles, Types: append([]string{}, t.Types...), Created: t.Created, Token: text}
}
