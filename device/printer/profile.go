package printer

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/text/encoding/charmap"
)

// Ability says whether a model can do something that is only seen by trying.
type Ability uint8

// A model that Maybe answers is asked; three silences mean that it does not. A
// model that Can answer and stays silent is switched off or broken.
const (
	Cannot Ability = iota
	Maybe
	Can
)

// Cutter is what stands behind the paper's exit.
type Cutter uint8

// With no cutter the slip is fed past the tear bar.
const (
	NoCutter Cutter = iota
	PartialCut
	FullCut
)

// CodePage is one of the printer's tables of 256 characters. PRINTING.md has what each
// lacks, and what stands in its place.
type CodePage struct {
	Name   string
	Number byte // what ESC t takes; by maker, not by standard
	chars  *charmap.Charmap
}

// Profile is what one family of printers can do and how it is told. Its fields are
// the keys of profiles.toml, where each is explained.
type Profile struct {
	Name         string
	Source       string // the manual that the numbers are from
	Columns      int    // characters of the normal font on a line: 32, 42 or 48
	Dots         int    // printable dots on a line, 8 per mm
	Cell         int    // dots that a character takes
	Page         CodePage
	LeaveChinese bool
	Inverse      bool
	Cutter       Cutter
	NativeQR     bool
	Status       Ability
	Completion   bool
	Clears       bool
	Recovers     bool
	Drawer       bool
	Buffer       int // bytes
	Chunk        int // bytes
	Speed        int // mm/s
	Paced        bool
	Heat         [3]byte // all zero: not sent
	Wake         time.Duration
}

// ShippedProfiles is the file of the shipped profiles, the most exact one first; a
// technician's own has the same form.
//
//go:embed profiles.toml
var ShippedProfiles []byte

// profileFile is a file of profiles. What an entry leaves out is that of the one it is like.
type profileFile struct {
	Printers []profileEntry `toml:"printer"`
}

type profileEntry struct {
	Name         string   `toml:"name"`
	Like         string   `toml:"like"`
	Source       *string  `toml:"source"`
	Columns      *int     `toml:"columns"`
	Dots         *int     `toml:"dots"`
	Cell         *int     `toml:"cell"`
	Page         *string  `toml:"page"`
	PageNumber   *uint8   `toml:"page_number"`
	LeaveChinese *bool    `toml:"leave_chinese"`
	Inverse      *bool    `toml:"inverse"`
	Cutter       *string  `toml:"cutter"`
	NativeQR     *bool    `toml:"native_qr"`
	Status       *string  `toml:"status"`
	Completion   *bool    `toml:"completion"`
	Clears       *bool    `toml:"clears"`
	Recovers     *bool    `toml:"recovers"`
	Drawer       *bool    `toml:"drawer"`
	Buffer       *int     `toml:"buffer"`
	Chunk        *int     `toml:"chunk"`
	Speed        *int     `toml:"speed_mm_s"`
	Paced        *bool    `toml:"paced"`
	Heat         *[]uint8 `toml:"heat"`
	Wake         *int     `toml:"wake_ms"`
}

// Profiles are the shipped profiles, the most exact one first.
func Profiles() []Profile {
	strict := func(into any) error {
		return toml.NewDecoder(bytes.NewReader(ShippedProfiles)).DisallowUnknownFields().Decode(into)
	}
	list, err := ReadProfiles(nil, strict)
	if err != nil {
		panic(fmt.Sprintf("profiles.toml as shipped: %v", err)) // our own bug: a test reads it
	}
	return list
}

// ReadProfiles adds to known the profiles of a file and returns both; an entry with a
// known name takes its place. Decode reads the file strictly into the value it is given:
// an unknown key or a value of the wrong type is its error. An entry may be like one that
// is known or stands above it. All errors are reported, each with the entry's name.
func ReadProfiles(known []Profile, decode func(into any) error) ([]Profile, error) {
	var f profileFile
	if err := decode(&f); err != nil {
		return nil, err
	}
	if len(f.Printers) == 0 {
		return nil, errors.New("no printer in the file: begin one with [[printer]]")
	}
	list := slices.Clone(known)
	var errs []error
	for i, e := range f.Printers {
		p, err := e.profile(list)
		if err != nil {
			errs = append(errs, fmt.Errorf("printer %d of the file: %w", i+1, err))
			continue
		}
		if at := slices.IndexFunc(list, func(q Profile) bool { return q.Name == p.Name }); at >= 0 {
			list[at] = p
		} else {
			list = append(list, p)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return list, nil
}

// profile is what an entry says on top of the profile it is like.
func (e profileEntry) profile(known []Profile) (Profile, error) {
	if e.Name == "" || len(e.Name) > 40 {
		return Profile{}, fmt.Errorf("name = %.50q: give it a name of 1 to 40 bytes", e.Name)
	}
	p := Profile{Cell: cellDots}
	if e.Like != "" {
		like, err := FindProfile(known, e.Like)
		if err != nil {
			return p, fmt.Errorf("%q: like: %w", e.Name, err)
		}
		p = like
	}
	p.Name = e.Name
	set(&p.Source, e.Source)
	set(&p.Columns, e.Columns)
	set(&p.Dots, e.Dots)
	set(&p.Cell, e.Cell)
	set(&p.LeaveChinese, e.LeaveChinese)
	set(&p.Inverse, e.Inverse)
	set(&p.NativeQR, e.NativeQR)
	set(&p.Completion, e.Completion)
	set(&p.Clears, e.Clears)
	set(&p.Recovers, e.Recovers)
	set(&p.Drawer, e.Drawer)
	set(&p.Buffer, e.Buffer)
	set(&p.Chunk, e.Chunk)
	set(&p.Speed, e.Speed)
	set(&p.Paced, e.Paced)
	if err := errors.Join(e.words(&p), p.check()); err != nil {
		return p, fmt.Errorf("%q: %w", e.Name, err)
	}
	return p, nil
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// words takes the keys whose value is one of a few.
func (e profileEntry) words(p *Profile) error {
	var errs []error
	if e.Page != nil {
		page, err := pageNamed(*e.Page)
		errs, p.Page = append(errs, err), page
	}
	set(&p.Page.Number, e.PageNumber)
	if e.Cutter != nil {
		errs = append(errs, oneOf(&p.Cutter, "cutter", *e.Cutter, map[string]Cutter{"none": NoCutter, "partial": PartialCut, "full": FullCut}))
	}
	if e.Status != nil {
		errs = append(errs, oneOf(&p.Status, "status", *e.Status, map[string]Ability{"no": Cannot, "maybe": Maybe, "yes": Can}))
	}
	if e.Heat != nil {
		p.Heat = [3]byte{}
		if n := len(*e.Heat); n != 0 && n != len(p.Heat) {
			errs = append(errs, fmt.Errorf("heat = %d numbers: want 3 (dots, time, interval), or none", n))
		}
		copy(p.Heat[:], *e.Heat)
	}
	if e.Wake != nil {
		p.Wake = time.Duration(*e.Wake) * time.Millisecond
	}
	return errors.Join(errs...)
}

func oneOf[T any](to *T, key, word string, words map[string]T) error {
	value, ok := words[word]
	if !ok {
		var names []string
		for name := range words {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Errorf("%s = %.20q: want one of %s", key, word, strings.Join(names, ", "))
	}
	*to = value
	return nil
}

// ProfileNamed returns a shipped profile; see FindProfile.
func ProfileNamed(name string) (Profile, error) { return FindProfile(Profiles(), name) }

// FindProfile returns the profile of that name. An unknown name is an error that says
// which known one is nearest, and for a Star printer what to do about it.
func FindProfile(profiles []Profile, name string) (Profile, error) {
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == name })
	if i >= 0 {
		return profiles[i], nil
	}
	if strings.HasPrefix(strings.ToLower(name), "star") {
		return Profile{}, fmt.Errorf("printer profile %.40q: Star's own commands (Line Mode, StarPRNT) are not supported: "+
			"switch the printer to ESC/POS emulation (memory switch or Star's set-up tool) and take %q, with page_number as its self-test prints it", name, "generic-80")
	}
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.Name
	}
	return Profile{}, fmt.Errorf("printer profile %.40q is not known: did you mean %q? (there are %s)",
		name, nearest(name, names), strings.Join(names, ", "))
}

// area is the dots of a line that text takes; codes and pictures stay inside it too, so
// that a profile with too many dots still prints whole codes.
func (p Profile) area() int { return p.Columns * p.Cell }

// check refuses a profile whose numbers would make a slip unreadable or a job endless.
func (p Profile) check() error {
	switch {
	case p.Columns < 16 || p.Columns > 96:
		return fmt.Errorf("printer profile %q: %d columns, want 16 to 96", p.Name, p.Columns)
	case p.Cell < 8 || p.Cell > 24:
		return fmt.Errorf("printer profile %q: cell of %d dots, want 8 to 24", p.Name, p.Cell)
	case p.Dots < p.area() || p.Dots > 2048:
		return fmt.Errorf("printer profile %q: %d dots for %d columns, want at least %d a column and at most 2048", p.Name, p.Dots, p.Columns, p.Cell)
	case p.Page.chars == nil:
		return fmt.Errorf("printer profile %q: no code page; take one of Pages", p.Name)
	case p.Chunk < 1 || p.Buffer < p.Chunk || p.Speed < 1 || p.Buffer > 1<<24 || p.Speed > 1000:
		return fmt.Errorf("printer profile %q: chunk %d, buffer %d, speed %d mm/s must be positive, chunk within buffer, speed at most 1000", p.Name, p.Chunk, p.Buffer, p.Speed)
	case p.Wake < 0 || p.Wake > 10*time.Second:
		return fmt.Errorf("printer profile %q: wakes up in %v, want 0 to 10 s", p.Name, p.Wake)
	case p.Status == Cannot && (p.Completion || p.Clears || p.Recovers):
		return fmt.Errorf("printer profile %q: status = \"no\", but completion, clears and recovers are answers too", p.Name)
	}
	return nil
}

// nearest is the name with the fewest changed characters.
func nearest(name string, names []string) string {
	best, least := "", int(^uint(0)>>1)
	for _, n := range names {
		if d := changes(name[:min(len(name), 64)], n); d < least {
			best, least = n, d
		}
	}
	return best
}

// changes is the edit distance of two short names, byte by byte.
func changes(a, b string) int {
	line := make([]int, len(b)+1)
	for j := range line {
		line[j] = j
	}
	for i := range len(a) {
		diagonal := line[0]
		line[0]++
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = line[j+1]
			line[j+1] = min(cost, line[j]+1, diagonal+1)
		}
	}
	return line[len(b)]
}
