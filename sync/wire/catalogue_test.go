package wire

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestSnapshotThatNamesSoftwareIsANewTextBesideTheOld: what is named is read back, nothing
// else is read, and the texts before it name none of it.
func TestSnapshotThatNamesSoftwareIsANewTextBesideTheOld(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	release := Release{Name: "terminald", Version: "1.4.0-rc1", SHA256: sum, Size: 7}
	for _, s := range []Snapshot{
		{Version: 3, Issued: at, Catalogue: CatalogueFile{sum, 9}},
		{Version: 3, Issued: at, Software: []Release{release}},
		{Version: 3, Issued: at, Policies: []PolicyFile{{sum, 5}}, Catalogue: CatalogueFile{sum, 9}, Software: []Release{release, release}},
	} {
		text := s.Text()
		again, err := ParseSnapshot(text)
		if err != nil || !reflect.DeepEqual(again, s) || !strings.HasPrefix(text, "grattoir snapshot v3\n") {
			t.Errorf("%+v %v\n%s", again, err, text)
		}
		for version, old := range map[string]Snapshot{"v1": s.WithoutPieces(), "v2": s.WithoutCatalogue()} {
			if text := old.Text(); strings.Contains(text, "catalogue") || strings.Contains(text, "software") || strings.Contains(text, "v3") {
				t.Errorf("%s: %s", version, text)
			}
		}
		for what, spoilt := range map[string]string{"an older version": strings.Replace(text, "v3", "v2", 1), "a line more": text + "later\n", "a capital": strings.ReplaceAll(text, "ab", "AB"),
			"another order": strings.Replace(text, "issued", "Issued", 1)} {
			if _, err := ParseSnapshot(spoilt); err == nil {
				t.Errorf("%s: read all the same\n%s", what, spoilt)
			}
		}
	}
	if _, err := ParseSnapshot("grattoir snapshot v3\nversion 3\nissued 2026-11-30T12:00:00.000Z\nblocks 0\n"); err == nil {
		t.Error("a version 3 that names nothing of its own")
	}
	for _, bad := range []Release{{}, {Name: "Terminald", Version: "1", SHA256: sum, Size: 1}, {Name: "t", Version: "1 2", SHA256: sum, Size: 1}, {Name: "t", Version: "1", SHA256: "x", Size: 1}, {Name: "t", Version: "1", SHA256: sum}} {
		if bad.Check() == nil {
			t.Errorf("%+v", bad)
		}
	}
}
