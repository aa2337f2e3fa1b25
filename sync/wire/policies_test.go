package wire

import (
	"slices"
	"strings"
	"testing"
)

func TestSnapshotNamesItsPolicies(t *testing.T) {
	s, err := ParseSnapshot(snapshotVector)
	if err != nil {
		t.Fatal(err)
	}
	was := s.Text()
	s.Policies = []PolicyFile{{strings.Repeat("a", 64), 700}, {strings.Repeat("b", 64), 1}}
	text := s.Text()
	if !strings.HasPrefix(text, "grattoir snapshot v2\n") || !strings.HasSuffix(text, "policies 2\npolicy "+strings.Repeat("a", 64)+" 700\npolicy "+strings.Repeat("b", 64)+" 1\n") {
		t.Fatalf("%s", text)
	}
	again, err := ParseSnapshot(text)
	if err != nil || !slices.Equal(again.Policies, s.Policies) || len(again.Blocks) != len(s.Blocks) {
		t.Fatalf("%+v %v", again, err)
	}
	if s.WithoutPieces().Text() != was {
		t.Errorf("without them it is\n%s", s.WithoutPieces().Text())
	}
	for what, edit := range map[string]func(string) string{
		"one too few announced":  func(s string) string { return strings.Replace(s, "policies 2", "policies 1", 1) },
		"none announced":         func(s string) string { return strings.Replace(s, "policies 2\n", "", 1) },
		"no hash":                func(s string) string { return strings.Replace(s, strings.Repeat("a", 64), "a", 1) },
		"no size":                func(s string) string { return strings.Replace(s, " 700", " 0", 1) },
		"a line after the last":  func(s string) string { return s + "more\n" },
		"another spelling":       func(s string) string { return strings.Replace(s, " 700", " 0700", 1) },
		"policies of an old one": func(s string) string { return strings.Replace(s, "snapshot v2", "snapshot v1", 1) },
	} {
		if _, err := ParseSnapshot(edit(text)); err == nil {
			t.Errorf("%s was read", what)
		}
	}
}
