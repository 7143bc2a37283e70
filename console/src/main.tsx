import { render } from 'preact';
import './theme/tokens.css';
import './theme/base.css';
import './theme/controls.css';
import { App } from './app.js';

const root = document.getElementById('console');
if (root) render(<App />, root);
