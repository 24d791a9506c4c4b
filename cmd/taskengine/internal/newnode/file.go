package newnode

import (
	_ "embed"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v4"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/scaffold"
)

//go:embed taskengine.yaml.tmpl
var fileTemplate string

// tokensFile is the file of the tokens of clients, beside the configuration.
const tokensFile = "tokens.json"

// render returns the configuration for answers that were checked.
func render(a Answers) (string, error) {
	in := struct {
		Answers
		Tokens  string   // the file; "" is none
		Command []string // of the handler
	}{Answers: a}
	if a.Tokens {
		in.Tokens = tokensFile
	}
	if a.Handler != NoHandler {
		command, err := scaffold.Command(a.Handler, a.Name)
		if err != nil {
			return "", err
		}
		in.Command = command
		if program, ok := strings.CutPrefix(command[0], "./"); ok {
			in.Command[0] = "./" + a.Name + "/" + program
		}
	}
	t, err := template.New("").Funcs(template.FuncMap{"yaml": scalar}).Parse(fileTemplate)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.Execute(&b, in); err != nil {
		return "", err
	}
	return b.String(), nil
}

// scalar returns a text as YAML within a list or behind a key, with quotes if it needs them.
func scalar(text string) (string, error) {
	if strings.ContainsAny(text, ",[]{}\n") { // a text of several lines would be a block
		n := yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: text}
		out, err := yaml.Marshal(&n)
		return strings.TrimSpace(string(out)), err
	}
	out, err := yaml.Marshal(text)
	return strings.TrimSpace(string(out)), err
}
