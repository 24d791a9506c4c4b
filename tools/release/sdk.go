package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// sdk is the package for a language that a release has.
type sdk struct {
	language string
	folder   string // in the repository
	// build makes the files of the package from the folder, in which the version is stamped.
	build func(b *sdkBuild) error
	// check runs the tools of the registry on the files.
	check func(b *sdkBuild) error
}

// sdks are the packages, in the order in which they are made.
var sdks = []sdk{
	{"python", "plugins/sdk/python", (*sdkBuild).makePython, (*sdkBuild).lintPython},
	{"node", "plugins/sdk/node", (*sdkBuild).makeNode, (*sdkBuild).lintNode},
	{"java", "plugins/sdk/java", (*sdkBuild).makeJava, func(*sdkBuild) error { return nil }},
}

// sdkName is the name of the packages in their registries. In that of Python, taskengine belongs to another project.
const sdkName = program + "-handler"

// sdkBuild is one making of one package.
type sdkBuild struct {
	folder  string // of the sources, with the version stamped
	out     string // the folder of the release
	version string // of the release, without its v
	date    time.Time
}

// parseLanguages returns the packages of a list with commas. An empty list has none.
func parseLanguages(text string) (all []sdk, err error) {
	for language := range strings.SplitSeq(text, ",") {
		i := slices.IndexFunc(sdks, func(s sdk) bool { return s.language == language })
		if i < 0 && text != "" {
			return nil, fmt.Errorf("there is no package for the language %q: use python, node, java, or nothing", language)
		}
		if i >= 0 {
			all = append(all, sdks[i])
		}
	}
	return all, nil
}

// makeSDKs makes the packages in a clone of their own, since these files are changed, and a program of changed files says so. With lint it
// also runs the tools of the registries.
func (r *repository) makeSDKs(dir string, of []sdk, lint bool) error {
	if len(of) == 0 {
		return nil
	}
	source, err := r.checkOut()
	if err != nil {
		return err
	}
	defer removeTree(source)
	if err := r.stamp(source); err != nil {
		return err
	}
	for _, s := range of {
		fmt.Printf("the package for %s\n", s.language)
		b := &sdkBuild{folder: filepath.Join(source, s.folder), out: dir, version: strings.TrimPrefix(r.version, "v"), date: r.date}
		if err := s.build(b); err != nil {
			return fmt.Errorf("the package for %s: %w", s.language, err)
		}
		if !lint {
			continue
		}
		if err := s.check(b); err != nil {
			return fmt.Errorf("the package for %s: %w", s.language, err)
		}
	}
	return nil
}

// place is a place of a file that says the version or the commit: before is its text in the repository, and after that in a release, in which
// $version and $commit stand for both.
type place struct{ file, before, after string }

var places = []place{
	{"plugins/sdk/python/taskengine/_version.py", `VERSION = "0.1.0"`, `VERSION = "$version"`},
	{"plugins/sdk/python/pyproject.toml", "\n[project.urls]\n", "\n[project.urls]\nSource = \"https://" + module + "/tree/$commit\"\n"},
	{"plugins/sdk/node/package.json", `"version": "0.1.0",`, `"version": "$version",` + "\n" + `  "gitHead": "$commit",`},
	{"plugins/sdk/node/src/version.ts", `VERSION = "0.1.0"`, `VERSION = "$version"`},
	{"plugins/sdk/java/pom.xml", "<artifactId>taskengine-handler</artifactId>\n  <version>0.1.0</version>", "<artifactId>taskengine-handler</artifactId>\n  <version>$version</version>"},
	{"plugins/sdk/java/pom.xml", "<tag>HEAD</tag>", "<tag>$commit</tag>"},
	{"plugins/sdk/java/src/main/java/io/github/taskengine/handler/Session.java", `SDK_VERSION = "0.1.0"`, `SDK_VERSION = "$version"`},
}

// stamp writes the version and the commit into the packages in a folder, and makes the links of their README files, which registries show, lead to
// the repository.
func (r *repository) stamp(source string) error {
	for _, p := range places {
		version := strings.TrimPrefix(r.version, "v")
		if path.Ext(p.file) == ".py" {
			version = pythonVersion(version)
		}
		after := strings.NewReplacer("$version", version, "$commit", r.commit).Replace(p.after)
		err := edit(filepath.Join(source, p.file), func(text string) (string, error) {
			if n := strings.Count(text, p.before); n != 1 {
				return "", fmt.Errorf("%s has %q %d times, want once", p.file, p.before, n)
			}
			return strings.Replace(text, p.before, after, 1), nil
		})
		if err != nil {
			return err
		}
	}
	for _, s := range sdks {
		err := edit(filepath.Join(source, s.folder, "README.md"), func(text string) (string, error) {
			return absolute(text, s.folder, r.version), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// edit changes the text of a file.
func edit(file string, change func(string) (string, error)) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := change(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}

// absolute makes the links of a file in a folder to other files of the repository lead to them on the web.
func absolute(text, folder, version string) string {
	return relative.ReplaceAllStringFunc(text, func(link string) string {
		to := relative.FindStringSubmatch(link)[1]
		if strings.HasPrefix(to, "#") {
			return link
		}
		return "](https://" + module + "/blob/" + version + "/" + path.Join(folder, to) + ")"
	})
}

// candidate matches the end of a version before a release.
var candidate = regexp.MustCompile(`^([0-9.]+)-(alpha|beta|rc)\.?([0-9]+)$`)

// pythonVersion returns a version as Python writes it: 1.2.3rc1 for 1.2.3-rc.1. Python knows no other words than alpha, beta and rc; a version with
// others becomes a local one.
func pythonVersion(version string) string {
	if m := candidate.FindStringSubmatch(version); m != nil {
		return m[1] + map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[2]] + m[3]
	}
	number, rest, found := strings.Cut(version, "-")
	if !found {
		return version
	}
	return number + ".dev0+" + strings.ToLower(strings.ReplaceAll(rest, "-", "."))
}

// command runs a program in a folder, with variables added to the environment.
func command(folder string, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
