package enginetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the module's folder.
const root = "../.."

// guarantee is a line of docs/guarantees.md: a promise, and the tests that show it.
type guarantee struct {
	text  string
	tests [][2]string // folder and name
}

func guarantees(t *testing.T) []guarantee {
	t.Helper()
	all := rows(t, "guarantees.md", "guarantee")
	if len(all) < 40 {
		t.Fatalf("docs/guarantees.md has only %d lines with guarantees", len(all))
	}
	return all
}

// rows returns the rows of the tables of a page that have this head of their first column, and tests in the second.
func rows(t *testing.T, page, head string) (all []guarantee) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	named, inside := regexp.MustCompile("`([^`:]+): ([^`]+)`"), false
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
			continue
		case cells[0] == head:
			inside = true
			continue
		case !inside || strings.HasPrefix(line, "|---"):
			continue
		}
		g := guarantee{text: cells[0]}
		if len(cells) == 2 {
			for _, m := range named.FindAllStringSubmatch(cells[1], -1) {
				g.tests = append(g.tests, [2]string{m[1], m[2]})
			}
		}
		all = append(all, g)
	}
	return all
}

func TestEveryGuaranteeNamesTestsThatExist(t *testing.T) {
	checkNames(t, guarantees(t))
}

// Two lines with the same tests, or the same beginning, are two versions of one guarantee, of which a merge kept both.
func TestNoGuaranteeStandsTwice(t *testing.T) {
	seen := make(map[string]string)
	for _, g := range guarantees(t) {
		is := []string{g.text[:min(len(g.text), 50)]}
		if len(g.tests) > 1 {
			slices.SortFunc(g.tests, func(a, b [2]string) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			is = append(is, fmt.Sprint(g.tests))
		}
		for _, is := range is {
			if other, ok := seen[is]; ok {
				t.Errorf("the same guarantee:\n%s\n%s", other, g.text)
			}
			seen[is] = g.text
		}
	}
}

func TestTheTestsBesideThoseOfPagerDutyExist(t *testing.T) {
	all := rows(t, "from-pagerduty.md", "subject of the tests of the scheduler")
	if len(all) < 20 {
		t.Fatalf("docs/from-pagerduty.md has only %d lines with tests", len(all))
	}
	checkNames(t, all)
}

func TestTheTestsOfTheDesignOnZooKeeperExist(t *testing.T) {
	all := rows(t, "from-zookeeper.md", "requirement")
	if len(all) < 25 {
		t.Fatalf("docs/from-zookeeper.md has only %d lines with tests", len(all))
	}
	checkNames(t, all)
}

// checkNames fails the test unless each line names tests, and all of them exist.
func checkNames(t *testing.T, all []guarantee) {
	t.Helper()
	for _, g := range all {
		if len(g.tests) == 0 {
			t.Errorf("no test is named for: %s", g.text)
		}
		for _, test := range g.tests {
			if err := find(test[0], test[1]); err != nil {
				t.Errorf("%s: %v", g.text, err)
			}
		}
	}
}

// find returns an error unless the folder has the test: a function, a script or a case of a suite.
func find(folder, name string) error {
	dir := filepath.Join(root, filepath.FromSlash(folder))
	if strings.HasSuffix(name, ".txt") {
		_, err := os.Stat(filepath.Join(dir, "testdata", name))
		return err
	}
	pattern, wants := "*.go", []string{fmt.Sprintf("{%q, ", name), fmt.Sprintf(".run(t, %q, ", name)}
	if strings.HasPrefix(name, "Test") {
		pattern, wants = "*_test.go", []string{"func " + name + "("}
	}
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(wants, func(want string) bool { return strings.Contains(string(text), want) }) {
			return nil
		}
	}
	return fmt.Errorf("%s has no test %q among its %d files", folder, name, len(files))
}

func TestANameThatDoesNotExistIsNoticed(t *testing.T) {
	for _, test := range [][2]string{
		{"engine", "TestThatNobodyHasWritten"},
		{"engine/enginetest", "nothing ever fails"},
		{"engine/internal/core", "none.txt"},
		{"coord/coordtest", "nothing is shared"},
		{"nowhere", "TestScripts"},
	} {
		if find(test[0], test[1]) == nil {
			t.Errorf("%q was found", test)
		}
	}
}
