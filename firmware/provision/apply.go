package provision

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"grattoir/validate/manifest"
)

var (
	// ErrOlder means a sheet that is not newer than the one in force.
	ErrOlder = errors.New("a newer provisioning file is in force")
	// ErrOther means a sheet for another terminal than the one that this card has become.
	ErrOther = errors.New("this card is another terminal's")
)

// Record is what a terminal remembers of the sheet in force. No secret is in it.
type Record struct {
	Mark    string    `json:"mark"` // of the sheet, see Sheet.Mark
	Sheet   Sheet     `json:"sheet"`
	By      []string  `json:"by"`      // who signed it
	Applied time.Time `json:"applied"` // device's clock
}

// Target is the terminal that a sheet is applied to.
type Target struct {
	Config     string // terminald's configuration file; the record and public keys lie beside it
	Networkd   string // folder of systemd-networkd's units
	Supplicant string // folder of wpa_supplicant's configurations

	// Check is nil for a configuration that terminald of this image can read, of a terminal
	// of that name.
	Check func(config, terminal string) error
	// Enrol makes the identity out of an enrolment file. Again replaces one that is there.
	Enrol func(file string, again bool) error
	// Waiting tells that the identity that is there was made of an enrolment file and is not
	// certified yet.
	Waiting func() bool
	Now     func() time.Time

	step func(string) // of tests: a cut after a step
}

// RecordName is the record's file, in the folder of the configuration.
const RecordName = "provisioned.json"

// LoadRecord reads what is in force. The error is ErrEmpty where nothing ever was.
func LoadRecord(config string) (Record, error) {
	var r Record
	path := filepath.Join(filepath.Dir(config), RecordName)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return r, fmt.Errorf("%s: %w", path, ErrEmpty)
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Apply puts a signed sheet into force, once. It may be cut at any moment and repeated:
// the record is written last, and only after it may the note be wiped. The same sheet
// again changes nothing; another one must have a higher serial and be for the same
// terminal. Changed tells that this call put it into force.
func (t Target) Apply(signed []byte, ring manifest.Keys) (r Record, changed bool, err error) {
	sheet, by, err := Open(signed, ring)
	if err != nil {
		return r, false, err
	}
	before, err := LoadRecord(t.Config)
	known := err == nil
	switch {
	case err != nil && !errors.Is(err, ErrEmpty):
		return r, false, err
	case known && before.Mark == sheet.Mark():
		return before, false, nil
	case known && before.Sheet.Terminal != sheet.Terminal:
		return before, false, fmt.Errorf("%w: it is %s and the file makes it %s; flash a card anew for that", ErrOther, before.Sheet.Terminal, sheet.Terminal)
	case known && sheet.Serial <= before.Sheet.Serial:
		return before, false, fmt.Errorf("%w: it has serial %d, this file %d", ErrOlder, before.Sheet.Serial, sheet.Serial)
	}
	if err := t.Check(sheet.Config, sheet.Terminal); err != nil {
		return r, false, fmt.Errorf("the configuration in the file: %w", err)
	}
	r = Record{Mark: sheet.Mark(), Sheet: sheet.Public(), By: by, Applied: t.Now().UTC().Truncate(time.Second)}
	if err := t.write(sheet, known); err != nil {
		return r, false, err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = store(filepath.Join(filepath.Dir(t.Config), RecordName), append(text, '\n'), 0o644)
	}
	t.done("record")
	return r, err == nil, err
}

func (t Target) done(step string) {
	if t.step != nil {
		t.step(step)
	}
}

// write makes all files of a sheet. Each is whole or not there.
func (t Target) write(s Sheet, known bool) error {
	network, supplicant := filepath.Join(t.Networkd, NetworkFile), filepath.Join(t.Supplicant, SupplicantFile)
	files := []struct {
		path string
		text []byte // nil for none
		mode os.FileMode
	}{
		{path: supplicant, mode: 0o600},
		{path: network, mode: 0o644}, // systemd-networkd reads it as a user of its own; no secret is in it
	}
	if s.Network.WiFi != nil {
		files[0].text = s.Network.WiFi.supplicant()
	}
	if s.Network.Kind != None {
		files[1].text = s.Network.networkd()
	}
	for i, k := range s.Keys {
		files = append(files, struct {
			path string
			text []byte
			mode os.FileMode
		}{filepath.Join(filepath.Dir(t.Config), KeyFile(i)), []byte(k + "\n"), 0o644})
	}
	for _, f := range files {
		err := error(nil)
		if f.text == nil {
			if err = os.Remove(f.path); errors.Is(err, os.ErrNotExist) {
				err = nil
			}
		} else {
			err = store(f.path, f.text, f.mode)
		}
		if err != nil {
			return err
		}
		t.done(filepath.Base(f.path))
	}
	if err := store(t.Config, []byte(s.Config), 0o644); err != nil {
		return err
	}
	t.done("config")
	if s.Enrolment == "" {
		return nil
	}
	// One that waits is of an earlier try of this sheet, or of the sheet before.
	if err := t.Enrol(s.Enrolment, known || t.Waiting()); err != nil {
		return fmt.Errorf("enrolment: %w", err)
	}
	t.done("enrol")
	return nil
}

// KeyFile is the name of a stand-alone terminal's key, in the folder of its configuration.
func KeyFile(i int) string { return filepath.Join("keys", fmt.Sprintf("%d.pub", i+1)) }

// store writes a file whole and durable, or leaves the old one.
func store(path string, text []byte, mode os.FileMode) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".provision-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// DropFile is where a note lies below a data partition that is mounted.
const DropFile = "provisioning/terminal.provision"

// Drop puts a note into the folder of a mounted data partition.
func Drop(dir string, signed []byte) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: want the folder where the card's data partition is mounted (%w)", dir, errors.Join(err, os.ErrInvalid))
	}
	path := filepath.Join(dir, DropFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return store(path, signed, 0o600)
}

// Wipe writes over a dropped note and takes it away. A card may keep the old content
// somewhere: its code is dead by then, and its Wi-Fi key is on the card anyhow.
func Wipe(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.Write(make([]byte, info.Size()))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Remove(path)
}
