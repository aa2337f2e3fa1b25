package image

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingOnTheCardOverlaps: the two places outside the partitions, and the partitions.
func TestNothingOnTheCardOverlaps(t *testing.T) {
	for _, b := range Boards() {
		places := []Partition{{Label: "table", Size: 512}, {Label: "boot state", Offset: BootStateOffset, Size: BootStateSize},
			{Label: "provisioning", Offset: ProvisionOffset, Size: ProvisionSize}}
		places = append(places, b.Partitions()...)
		for i, p := range places[1:] {
			before := places[i]
			if p.Offset < before.Offset+before.Size {
				t.Errorf("%s: %s begins at %d, inside %s", b.Name, p.Label, p.Offset, before.Label)
			}
			if i >= 2 && (p.Offset%(4<<20) != 0 || p.Size%(1<<20) != 0) {
				t.Errorf("%s: %s is not aligned to the blocks of cards: %d, %d", b.Name, p.Label, p.Offset, p.Size)
			}
		}
		if b.Partitions()[0].Offset < 4<<20 {
			t.Errorf("%s: the first partition begins before 4 MiB, where terminalctl provision writes", b.Name)
		}
		if size := b.DiskSize(); size > 7<<30 || size%4096 != 0 {
			t.Errorf("%s: a card of 8 GB does not hold %d bytes, or they are not whole blocks", b.Name, size)
		}
	}
}

// TestCardIsReadByOthers: sfdisk finds in the table what was meant.
func TestCardIsReadByOthers(t *testing.T) {
	if _, err := exec.LookPath("sfdisk"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI must have fdisk: %v", err)
		}
		t.Skipf("NOT TESTED: %v: install fdisk", err)
	}
	board, err := FindBoard("virt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	part := func(name string) string {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(name), 5<<20); err != nil {
			t.Fatal(err)
		}
		return path
	}
	card := filepath.Join(dir, "card.img")
	if err := writeDisk(card, board, part("boot"), part("root"), part("data")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sfdisk", "--json", card).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Table struct {
			Label, ID  string
			Partitions []struct {
				Start, Size int64
				Type        string
				Bootable    bool
			}
		} `json:"partitiontable"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.Table.Label != "dos" || got.Table.ID != "0x47525454" || len(got.Table.Partitions) != 4 || !got.Table.Partitions[0].Bootable {
		t.Fatalf("sfdisk reads %s", out)
	}
	f, err := os.Open(card)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, p := range board.Partitions() {
		if q := got.Table.Partitions[i]; q.Start*512 != p.Offset || q.Size*512 != p.Size || !strings.EqualFold(q.Type, []string{"c", "83", "83", "83"}[i]) {
			t.Errorf("sfdisk reads partition %d as %+v: want %+v", i+1, q, p)
		}
		text := make([]byte, 4)
		if _, err := f.ReadAt(text, p.Offset+(5<<20)); err != nil {
			t.Fatal(err)
		}
		if want := []string{"boot", "root", "\x00\x00\x00\x00", "data"}[i]; string(text) != want {
			t.Errorf("partition %d holds %q: want %q", i+1, text, want)
		}
	}
	provision := make([]byte, ProvisionSize)
	if _, err := f.ReadAt(provision, ProvisionOffset); err != nil || !bytes.Equal(provision, make([]byte, ProvisionSize)) {
		t.Errorf("the provisioning slot is not empty: %v", err)
	}
}
