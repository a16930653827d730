"""HiCache: SGLang's own hierarchy. Not composed yet: the gate knows its storages."""
