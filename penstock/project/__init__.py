"""Stream tables kept as files: read (`files`), compared (`build`), planned (`plan`), done (`execute`)."""
