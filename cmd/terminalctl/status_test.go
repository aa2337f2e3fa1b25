package main

import (
	"strings"
	"testing"

	"grattoir/device/control"
)

// TestStatusNamesTheBlocksThatAreNotHere: one line for each that this terminal has packs
// of, the others counted; and both files of two that claim the same packs.
func TestStatusNamesTheBlocksThatAreNotHere(t *testing.T) {
	st := control.Status{Terminal: "T-1", Blocks: []control.Block{{Game: "bingo", GameCode: "00399", File: "a.manifest", Overlaps: "b.manifest"}}, Damaged: []string{"a.manifest", "b.manifest"},
		Link: &control.Link{Region: "bzh", QuotaBytes: 20000 << 20, TakenBytes: 150 << 20, Missing: []control.MissingBlock{
			{GameCode: "00399", FirstPack: 1, LastPack: 150000, Own: true, Why: "coming"},
			{GameCode: "00400", FirstPack: 1, LastPack: 9, Own: true, Why: "disk"},
			{GameCode: "00401", Why: "quota"}, {GameCode: "00402", Why: "quota"}, {GameCode: "00403", Why: "program"}}}}
	var out strings.Builder
	if err := printStatus(&out, st); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"150 MB of 20000 MB, region bzh",
		"NOT HERE, though packs of it are: game code 00399, packs 1-150000: on the way",
		"NOT HERE, though packs of it are: game code 00400, packs 1-9: no room on the disk: free some space",
		"not here: 2 blocks of other packs: no room in quota_mb",
		"not here: 1 blocks of other packs: it needs a newer program: update",
		"a.manifest OVERLAPS b.manifest: take the wrong file away",
		"NOT USABLE: b.manifest",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
