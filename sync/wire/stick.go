package wire

// A stick carries to a terminal what it would fetch, for a shop with no network. What lies
// on it proves itself by the same signatures and hashes, so nobody need trust whoever
// carried it.
const (
	StickSnapshot = "snapshot.note" // signed, as PathSnapshot gives it; written last
	// StickWhole is the same snapshot in the text that names the catalogue, where there is one.
	StickWhole     = "snapshot-3.note"
	StickCatalogue = "catalogue" // of games, as StickWhole lists it
	StickBlocks    = "blocks"    // SHA256.manifest, and descriptors as NAME.pieces
	StickPeppers   = "peppers"   // BLOCK.TERMINAL.pepper, sealed to that terminal
	StickPolicies  = "policies"  // signed by a seal key
)
